-- Archive tasks as completed, failed or canceled ($10), with their results. $11: whoever holds them (a cancel), where
-- a given delivery must still match. A failure that is the last only if the budget is spent says so for itself. Tasks
-- that others wait for are left alone unless $13: their end is a matter of more than one statement.
WITH item AS (
    SELECT *
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::int8[], $5::bytea[], $6::text[], $7::bytea[], $8::text[], $9::bool[],
        $14::text[], $15::bool[]
    ) AS item (
        id, queue, current_state, delivery, request, next_task_ids, result, content_type, is_json, error, if_spent
    )
),
ended AS (
    DELETE FROM tasks AS t
    USING item
    WHERE t.id = item.id
        AND (item.queue IS NULL OR t.queue = item.queue)
        AND (item.current_state IS NULL OR t.current_state = item.current_state)
        AND CASE
            WHEN item.delivery IS NOT NULL THEN t.phase = 'held' AND t.delivery = item.delivery
            WHEN $11::bool THEN true
            ELSE t.phase = 'ready' OR (t.phase = 'parked' AND t.due_time IS NOT NULL)
        END
        AND (NOT item.if_spent OR t.attempt + 1 >= t.max_attempts)
        AND (
            $13::bool OR t.job_id IS NULL
            OR NOT EXISTS (SELECT FROM task_dependencies AS d WHERE d.parent_id = t.id)
        )
    RETURNING
        {record},
        item.request, item.next_task_ids, item.error, item.result, item.content_type, item.is_json
),
archived AS (
    {archive}
    FROM ended AS t
    CROSS JOIN LATERAL (
        SELECT
            $10::text AS phase, $12::text AS outcome, 0 AS lost, t.request,
            t.next_task_ids::uuid[] AS next_task_ids, t.error,
            CASE WHEN $12::text = 'failed' THEN 1 ELSE 0 END AS attempt,
            CASE WHEN $10::text = 'canceled' THEN 'request' END AS canceled_by
    ) AS ending
    RETURNING *
),
stored AS (
    INSERT INTO results (id, bytes, content_type, is_json)
    SELECT id, result, content_type, is_json
    FROM ended
    WHERE result IS NOT NULL
    ON CONFLICT (id) DO UPDATE
    SET bytes = excluded.bytes, content_type = excluded.content_type, is_json = excluded.is_json
),
counted AS (
    {count_out:ended}
)
SELECT {record}
FROM archived AS t
