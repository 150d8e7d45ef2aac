-- Submit tasks, first in first: each ready, or parked by a delay, by a time that is still to come, or by the tasks of
-- its job that it waits for. A rerun that finds an id does nothing for it. What has an idempotency key takes it first,
-- and is left alone if that is taken.
WITH item AS (
    SELECT
        item.*,
        coalesce(item.auto_target_state, item.current_state || '-working') AS home_target,
        nullif(item.timeout, interval '0') AS clock,
        CASE
            WHEN item.waiting_on > 0 THEN NULL
            ELSE coalesce(item.run_at, statement_timestamp() + item.delay)
        END AS release_time,
        CASE
            WHEN item.waiting_on > 0 THEN '-blocked'
            WHEN coalesce(item.run_at, statement_timestamp() + item.delay) > statement_timestamp() THEN '-scheduled'
        END AS parked
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::interval[], $8::timestamptz[],
        $9::interval[], $10::interval[], $11::int4[], $12::interval[], $13::interval[], $14::float8[], $15::text[],
        $16::int4[], $17::text[], $18::bytea[], $19::text[], $20::bool[], $21::uuid[], $22::text[], $23::int4[],
        $24::text[], $25::bytea[]
    ) WITH ORDINALITY AS item (
        id, queue, kind, current_state, auto_target_state, rank, delay, run_at,
        timeout, work_timeout, max_attempts, backoff, backoff_max, backoff_multiplier, jitter,
        max_lost, metadata, payload, content_type, is_json, job_id, name, waiting_on, key, request, place
    )
),
kept AS (
    INSERT INTO idempotency_keys (key, request, task_ids, check_time, is_gone)
    SELECT key, request, ARRAY[id], statement_timestamp() + $26::interval, false
    FROM item
    WHERE key IS NOT NULL
    ORDER BY key
    ON CONFLICT (key) DO NOTHING
    RETURNING key
),
new AS (
    SELECT item.*
    FROM item
    WHERE item.key IS NULL OR item.key IN (SELECT kept.key FROM kept)
),
submitted AS (
    INSERT INTO tasks AS t (
        id, queue, kind, current_state, auto_target_state, phase, home_state, home_target, rank,
        submit_time, update_time, timeout, work_timeout, due_time, delivery,
        attempt, max_attempts, backoff, backoff_max, backoff_multiplier, jitter, lost, max_lost,
        job_id, name, waiting_on, metadata, start_delay, start_at
    )
    SELECT
        id, queue, kind,
        current_state || coalesce(parked, ''),
        CASE WHEN parked IS NULL THEN home_target ELSE current_state END,
        CASE WHEN parked IS NULL THEN 'ready' ELSE 'parked' END,
        current_state, home_target, rank,
        statement_timestamp() + (place - 1) * interval '1 microsecond', statement_timestamp(), clock, work_timeout,
        CASE WHEN parked IS NULL THEN statement_timestamp() + clock ELSE release_time END, 0,
        0, max_attempts, backoff, backoff_max, backoff_multiplier, jitter, 0, max_lost,
        job_id, name, waiting_on, metadata,
        CASE WHEN waiting_on > 0 THEN delay END, CASE WHEN waiting_on > 0 THEN run_at END
    FROM new
    ON CONFLICT (id) DO NOTHING
    RETURNING t.id, t.update_time, t.queue, t.current_state
),
given AS (
    INSERT INTO payloads (id, bytes, content_type, is_json)
    SELECT id, payload, content_type, is_json
    FROM new
    WHERE payload IS NOT NULL
    ON CONFLICT (id) DO NOTHING
),
counted AS (
    {count_in:submitted}
)
SELECT id, update_time
FROM submitted
