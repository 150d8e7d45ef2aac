-- Delete a batch ($5) of tasks of no job that have been $1 for $2 or longer, with all that they have left, in the order
-- in which they ended, after the place ($3, $4). Who else has taken one may be reviving it: it is passed over. What is
-- deleted elsewhere is what the archive has given up: a task that lives again keeps all it has.
WITH due AS (
    SELECT t.id, t.update_time
    FROM archived_tasks AS t
    WHERE t.job_id IS NULL AND t.phase = $1::text AND t.update_time <= statement_timestamp() - $2::interval
        AND (t.update_time, t.id) > ($3::timestamptz, $4::uuid)
    ORDER BY t.update_time, t.id
    LIMIT $5::int8
    FOR UPDATE SKIP LOCKED
),
purged AS (
    DELETE FROM archived_tasks AS t
    USING due
    WHERE t.id = due.id
        AND CASE
            WHEN t.job_id IS NULL AND t.phase = $1::text AND t.update_time <= statement_timestamp() - $2::interval
            THEN true
        END
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
)
SELECT due.update_time, due.id
FROM due
ORDER BY due.update_time, due.id
