-- End a batch ($4) of clocks that ran out by $1 and that no claim started after $2: the pair swaps and becomes home.
-- Tasks that would be lost once too often are left to sweep_dead.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH prior AS (
    SELECT t.id, t.current_state, t.phase, t.delivery, t.held_by, t.claim_time
    FROM tasks AS t
    WHERE t.due_time IS NOT NULL AND t.due_time <= $1::timestamptz AND t.phase <> 'parked'
        AND (t.claim_time IS NULL OR t.claim_time <= $2::timestamptz)
        AND ($3::text IS NULL OR t.queue = $3::text)
        AND (t.phase <> 'held' OR t.max_lost IS NULL OR t.lost + 1 < t.max_lost)
    ORDER BY t.due_time, t.id
    LIMIT $4::int8
    FOR UPDATE SKIP LOCKED
),
swept AS (
    UPDATE tasks AS t
    SET current_state = t.auto_target_state,
        auto_target_state = t.current_state,
        phase = 'ready',
        home_state = t.auto_target_state,
        home_target = t.current_state,
        timeout = NULL,
        due_time = NULL,
        held_by = NULL,
        claim_time = NULL,
        lost = t.lost + CASE WHEN t.phase = 'held' THEN 1 ELSE 0 END,
        update_time = statement_timestamp()
    FROM prior
    WHERE t.id = prior.id
        AND CASE
            WHEN t.due_time <= $1::timestamptz AND t.phase <> 'parked'
                AND (t.claim_time IS NULL OR t.claim_time <= $2::timestamptz)
                AND (t.phase <> 'held' OR t.max_lost IS NULL OR t.lost + 1 < t.max_lost)
            THEN true
        END
    RETURNING {record}, prior.current_state AS prior_state
),
run AS (
    INSERT INTO task_runs (task_id, delivery, worker_id, claim_time, end_time, outcome)
    SELECT prior.id, prior.delivery, prior.held_by, prior.claim_time, statement_timestamp(), 'dead'
    FROM prior
    JOIN swept ON swept.id = prior.id
    WHERE prior.phase = 'held'
),
counted AS (
    {count_moves:swept}
)
SELECT {record}
FROM swept AS t
