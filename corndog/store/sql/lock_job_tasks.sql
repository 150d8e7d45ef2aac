-- Take all live tasks of a job, in order of their ids.
SELECT t.id
FROM tasks AS t
WHERE t.job_id = $1::uuid
ORDER BY t.id
FOR UPDATE
