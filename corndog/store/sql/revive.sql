-- Make ended tasks live again: ready at home, or waiting for the dependencies that are open ($2). Those of a job only
-- if $4: whether they may be is a matter of more than one statement. The deliveries that ended them go to the history.
WITH item AS (
    SELECT *
    FROM unnest($1::uuid[], $2::int4[]) AS item (id, waiting_on)
),
revived AS (
    DELETE FROM archived_tasks AS t
    USING item
    WHERE t.id = item.id AND CASE WHEN t.phase IN ('failed', 'canceled') THEN true END
        AND ($4::bool OR t.job_id IS NULL)
    RETURNING {record}, item.waiting_on AS now_waiting_on, t.outcome, t.request
),
run AS (
    INSERT INTO task_runs (task_id, delivery, worker_id, claim_time, end_time, outcome, request, error)
    SELECT
        t.id, t.delivery, t.held_by, t.claim_time, t.update_time, t.outcome, t.request,
        CASE WHEN t.outcome = 'failed' THEN t.last_error END
    FROM revived AS t
    WHERE t.claim_time IS NOT NULL
    ON CONFLICT (task_id, delivery) DO NOTHING
),
live AS (
    INSERT INTO tasks AS t (
        id, queue, kind, current_state, auto_target_state, phase, home_state, home_target, rank,
        submit_time, update_time, timeout, work_timeout, due_time, delivery,
        attempt, max_attempts, backoff, backoff_max, backoff_multiplier, jitter, lost, max_lost,
        job_id, name, waiting_on, metadata, start_delay, start_at, write_token
    )
    SELECT
        id, queue, kind,
        CASE WHEN now_waiting_on > 0 THEN home_state || '-blocked' ELSE home_state END,
        CASE WHEN now_waiting_on > 0 THEN home_state ELSE home_target END,
        CASE WHEN now_waiting_on > 0 THEN 'parked' ELSE 'ready' END,
        home_state, home_target, rank,
        submit_time, statement_timestamp(), NULL, work_timeout, NULL, delivery,
        0, max_attempts, backoff, backoff_max, backoff_multiplier, jitter, 0, max_lost,
        job_id, name, now_waiting_on, metadata, start_delay, start_at, $3::uuid
    FROM revived
    RETURNING {record}
),
counted AS (
    {count_in:live}
)
SELECT {record}
FROM live AS t
