-- List the (queue, state) pairs that have ready tasks, at most $3, after the pair ($1, $2): by jumping along the index
-- from one to the next.
WITH RECURSIVE pair AS (
    (
        SELECT t.queue, t.current_state
        FROM tasks AS t
        WHERE (t.queue, t.current_state) > ($1::text, $2::text) AND t.phase = 'ready'
        ORDER BY t.queue, t.current_state
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.current_state
    FROM pair
    CROSS JOIN LATERAL (
        SELECT t.queue, t.current_state
        FROM tasks AS t
        WHERE (t.queue, t.current_state) > (pair.queue, pair.current_state) AND t.phase = 'ready'
        ORDER BY t.queue, t.current_state
        LIMIT 1
    ) AS following
)
SELECT queue, current_state
FROM pair
LIMIT $3::int8
