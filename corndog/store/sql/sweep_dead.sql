-- Archive as failed a batch ($4) of held tasks whose clocks ran out by $1 once more than max_lost allows.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH ended AS (
    DELETE FROM tasks AS t
    USING (
        SELECT t.id
        FROM tasks AS t
        WHERE t.due_time IS NOT NULL AND t.due_time <= $1::timestamptz AND t.phase <> 'parked'
            AND t.claim_time <= $2::timestamptz
            AND ($3::text IS NULL OR t.queue = $3::text)
            AND CASE WHEN t.phase = 'held' AND t.lost + 1 >= t.max_lost THEN true END
        ORDER BY t.due_time, t.id
        LIMIT $4::int8
        FOR UPDATE SKIP LOCKED
    ) AS prior
    WHERE t.id = prior.id
        AND CASE
            WHEN t.due_time <= $1::timestamptz AND t.claim_time <= $2::timestamptz
                AND t.phase = 'held' AND t.lost + 1 >= t.max_lost
            THEN true
        END
    RETURNING {record}
),
ending AS (
    SELECT
        'failed' AS phase, 'dead' AS outcome, 1 AS lost, 0 AS attempt, NULL::bytea AS request,
        ARRAY[]::uuid[] AS next_task_ids, NULL::text AS canceled_by, NULL::text AS error
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
