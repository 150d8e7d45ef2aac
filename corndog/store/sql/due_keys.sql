-- Of the keys whose time has come, at most $1, tell what has become of the tasks or the job that were made under them.
WITH due AS (
    SELECT k.key, k.check_time, k.is_gone, k.job_id, k.task_ids
    FROM idempotency_keys AS k
    WHERE k.check_time <= statement_timestamp()
    ORDER BY k.check_time, k.key
    LIMIT $1::int8
),
made AS (
    SELECT due.key, unnest(due.task_ids) AS id
    FROM due
),
remaining AS (
    SELECT made.key, count(t.id) > 0 AS is_live, max(ended.update_time) AS end_time
    FROM made
    LEFT JOIN tasks AS t ON t.id = made.id
    LEFT JOIN archived_tasks AS ended ON ended.id = made.id
    GROUP BY made.key
)
SELECT
    due.key, due.check_time, due.is_gone,
    coalesce(remaining.is_live, false) OR (j.id IS NOT NULL AND j.end_time IS NULL) AS is_live,
    coalesce(remaining.end_time, j.end_time) AS end_time,
    statement_timestamp()
FROM due
LEFT JOIN remaining ON remaining.key = due.key
LEFT JOIN jobs AS j ON j.id = due.job_id
ORDER BY due.check_time, due.key
