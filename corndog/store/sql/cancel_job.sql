-- Archive all live tasks of a job as canceled, whoever holds them.
WITH prior AS (
    SELECT t.id
    FROM tasks AS t
    WHERE t.job_id = $1::uuid
    ORDER BY t.id
    FOR UPDATE
),
ended AS (
    DELETE FROM tasks AS t
    USING prior
    WHERE t.id = prior.id AND t.phase IN ('ready', 'held', 'parked')
    RETURNING {record}
),
ending AS (
    SELECT
        'canceled' AS phase, 'canceled' AS outcome, 0 AS lost, 0 AS attempt, NULL::bytea AS request,
        ARRAY[]::uuid[] AS next_task_ids, 'job' AS canceled_by, NULL::text AS error
),
archived AS (
    {archive}
    FROM ended AS t
    CROSS JOIN ending
    RETURNING *
),
counted AS (
    {count_out:ended}
)
SELECT {record}
FROM archived AS t
