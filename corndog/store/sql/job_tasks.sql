-- Read all tasks of a job, live and archived.
SELECT {record} FROM tasks AS t WHERE t.job_id = $1::uuid
UNION ALL
SELECT {record} FROM archived_tasks AS t WHERE t.job_id = $1::uuid
ORDER BY 1
