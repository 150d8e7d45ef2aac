-- Count the ends of these tasks ($1) for those that wait for them; of tasks that failed or were canceled (not $2), for
-- those that run all the same. Whoever has waited for the last is ready at home, or parked by its own delay or time.
WITH settled AS (
    UPDATE task_dependencies AS d
    SET done = true
    WHERE d.parent_id = ANY($1::uuid[]) AND NOT d.done AND ($2::bool OR d.run_on_failure)
    RETURNING d.child_id
),
counted AS (
    SELECT settled.child_id AS id, count(*)::int4 AS number
    FROM settled
    GROUP BY settled.child_id
),
prior AS (
    SELECT t.id, t.current_state, counted.number
    FROM tasks AS t
    JOIN counted ON counted.id = t.id
    WHERE CASE WHEN t.phase = 'parked' AND t.due_time IS NULL THEN true END
    ORDER BY t.id
    FOR UPDATE OF t
),
lowered AS (
    UPDATE tasks AS t
    SET waiting_on = t.waiting_on - prior.number,
        current_state = CASE
            WHEN t.waiting_on > prior.number THEN t.current_state
            WHEN coalesce(t.start_at, statement_timestamp() + t.start_delay) > statement_timestamp()
                THEN t.home_state || '-scheduled'
            ELSE t.home_state
        END,
        auto_target_state = CASE
            WHEN t.waiting_on > prior.number THEN t.auto_target_state
            WHEN coalesce(t.start_at, statement_timestamp() + t.start_delay) > statement_timestamp()
                THEN t.home_state
            ELSE t.home_target
        END,
        phase = CASE
            WHEN t.waiting_on > prior.number THEN t.phase
            WHEN coalesce(t.start_at, statement_timestamp() + t.start_delay) > statement_timestamp()
                THEN 'parked'
            ELSE 'ready'
        END,
        due_time = CASE
            WHEN t.waiting_on > prior.number THEN NULL
            WHEN coalesce(t.start_at, statement_timestamp() + t.start_delay) > statement_timestamp()
                THEN coalesce(t.start_at, statement_timestamp() + t.start_delay)
            ELSE statement_timestamp() + t.timeout
        END,
        update_time = statement_timestamp()
    FROM prior
    WHERE t.id = prior.id AND CASE WHEN t.phase = 'parked' AND t.due_time IS NULL THEN true END
    RETURNING {record}, prior.current_state AS prior_state
),
moved AS (
    {count_moves:lowered}
)
SELECT {record}
FROM lowered AS t
