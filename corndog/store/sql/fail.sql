-- Use up an attempt of held tasks that have more: each is parked at home until its pause is over, or ready at once
-- without one. The pause is the one asked for, or the backoff after the failures so far, with its jitter.
WITH item AS (
    SELECT *
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::int8[], $5::text[], $6::interval[], $7::float8[], $8::bytea[],
        $9::uuid[]
    ) AS item (id, queue, current_state, delivery, error, retry_in, chance, request, token)
),
prior AS (
    SELECT
        item.*, t.current_state AS prior_state, t.held_by, t.claim_time,
        coalesce(
            item.retry_in,
            floor(
                CASE
                    WHEN t.backoff = interval '0' THEN 0.0::float8
                    WHEN t.attempt * ln(t.backoff_multiplier) > 600.0::float8
                        THEN extract(epoch FROM t.backoff_max)::float8
                    ELSE least(
                        extract(epoch FROM t.backoff_max)::float8,
                        extract(epoch FROM t.backoff)::float8 * power(t.backoff_multiplier, t.attempt::float8)
                    )
                END
                * CASE WHEN t.jitter = 'full' THEN item.chance ELSE 1.0::float8 END
                * 1000000.0::float8
            )::int8 * interval '1 microsecond'
        ) AS pause
    FROM tasks AS t
    JOIN item ON {matches}
    WHERE t.phase = 'held' AND (t.max_attempts IS NULL OR t.attempt + 1 < t.max_attempts)
    ORDER BY t.id
    FOR UPDATE OF t
),
failed AS (
    UPDATE tasks AS t
    SET current_state = CASE WHEN item.pause > interval '0' THEN t.home_state || '-retrying' ELSE t.home_state END,
        auto_target_state = CASE WHEN item.pause > interval '0' THEN t.home_state ELSE t.home_target END,
        phase = CASE WHEN item.pause > interval '0' THEN 'parked' ELSE 'ready' END,
        timeout = NULL,
        due_time = CASE WHEN item.pause > interval '0' THEN statement_timestamp() + item.pause END,
        held_by = NULL,
        claim_time = NULL,
        attempt = t.attempt + 1,
        last_error = item.error,
        update_time = statement_timestamp(),
        write_token = item.token
    FROM prior AS item
    WHERE t.phase = 'held' AND {matches}
        AND (t.max_attempts IS NULL OR t.attempt + 1 < t.max_attempts)
    RETURNING {record}, item.prior_state, item.held_by AS worker_id, item.claim_time AS began, item.request
),
run AS (
    INSERT INTO task_runs (task_id, delivery, worker_id, claim_time, end_time, outcome, request, error)
    SELECT id, delivery, worker_id, began, statement_timestamp(), 'failed', request, last_error
    FROM failed
),
counted AS (
    {count_moves:failed}
)
SELECT {record}
FROM failed AS t
