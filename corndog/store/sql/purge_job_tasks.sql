-- Delete a batch ($2) of the tasks of these jobs ($1), which are taken and have ended, with all that they have left and
-- what they depended on.
WITH purged AS (
    DELETE FROM archived_tasks AS t
    USING (
        SELECT t.id
        FROM archived_tasks AS t
        WHERE t.job_id = ANY($1::uuid[])
        LIMIT $2::int8
    ) AS due
    WHERE t.id = due.id AND CASE WHEN t.job_id = ANY($1::uuid[]) THEN true END
    RETURNING t.id
),
payload AS (
    DELETE FROM payloads AS p
    USING purged
    WHERE p.id = purged.id
),
result AS (
    DELETE FROM results AS r
    USING purged
    WHERE r.id = purged.id
),
run AS (
    DELETE FROM task_runs AS run
    USING purged
    WHERE run.task_id = purged.id
),
dependency AS (
    DELETE FROM task_dependencies AS d
    USING purged
    WHERE d.child_id = purged.id
)
SELECT count(*)::int8
FROM purged
