-- Make a batch ($1) of parked tasks ready at home, whose time has come; clocks that they were given start.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH due AS (
    SELECT t.id, t.current_state
    FROM tasks AS t
    WHERE t.phase = 'parked' AND t.due_time IS NOT NULL AND t.due_time <= statement_timestamp()
    ORDER BY t.due_time, t.id
    LIMIT $1::int8
    FOR UPDATE SKIP LOCKED
),
unparked AS (
    UPDATE tasks AS t
    SET current_state = t.home_state,
        auto_target_state = t.home_target,
        phase = 'ready',
        due_time = statement_timestamp() + t.timeout,
        update_time = statement_timestamp()
    FROM due
    WHERE t.id = due.id
        AND CASE WHEN t.phase = 'parked' AND t.due_time <= statement_timestamp() THEN true END
    RETURNING t.queue, t.current_state, t.rank, t.submit_time, t.id, due.current_state AS prior_state
),
counted AS (
    {count_moves:unparked}
)
SELECT queue, current_state, rank, submit_time, id
FROM unparked
