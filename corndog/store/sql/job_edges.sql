-- Read the dependencies of a job's tasks.
SELECT d.child_id, d.parent_id, d.done, d.run_on_failure
FROM (
    SELECT t.id FROM tasks AS t WHERE t.job_id = $1::uuid
    UNION ALL
    SELECT t.id FROM archived_tasks AS t WHERE t.job_id = $1::uuid
) AS child
JOIN task_dependencies AS d ON d.child_id = child.id
ORDER BY d.child_id, d.parent_id
