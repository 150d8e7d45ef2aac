INSERT INTO count_deltas (queue, current_state, tasks)
    SELECT t.queue, side.current_state, sum(side.tasks)::int8
    FROM {of} AS t
    CROSS JOIN LATERAL (VALUES (t.prior_state, -1), (t.current_state, 1)) AS side (current_state, tasks)
    GROUP BY t.queue, side.current_state
    HAVING sum(side.tasks) <> 0
