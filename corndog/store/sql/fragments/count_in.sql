INSERT INTO count_deltas (queue, current_state, tasks)
    SELECT t.queue, t.current_state, count(*)
    FROM {of} AS t
    GROUP BY t.queue, t.current_state
