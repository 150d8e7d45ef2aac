-- Submit tasks, first in first: each ready, or parked by a delay or a time that is still to come. A rerun that
-- finds an id does nothing for it.
WITH item AS (
    SELECT
        item.*,
        coalesce(item.auto_target_state, item.current_state || '-working') AS home_target,
        nullif(item.timeout, interval '0') AS clock,
        coalesce(item.run_at, statement_timestamp() + item.delay) AS release_time,
        coalesce(coalesce(item.run_at, statement_timestamp() + item.delay) > statement_timestamp(), false) AS parks
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::interval[], $8::timestamptz[],
        $9::interval[], $10::interval[], $11::int4[], $12::interval[], $13::interval[], $14::float8[], $15::text[],
        $16::int4[], $17::text[], $18::bytea[], $19::text[], $20::bool[]
    ) WITH ORDINALITY AS item (
        id, queue, kind, current_state, auto_target_state, rank, delay, run_at,
        timeout, work_timeout, max_attempts, backoff, backoff_max, backoff_multiplier, jitter,
        max_lost, metadata, payload, content_type, is_json, place
    )
),
submitted AS (
    INSERT INTO tasks AS t (
        id, queue, kind, current_state, auto_target_state, phase, home_state, home_target, rank,
        submit_time, update_time, timeout, work_timeout, due_time, delivery,
        attempt, max_attempts, backoff, backoff_max, backoff_multiplier, jitter, lost, max_lost,
        waiting_on, metadata
    )
    SELECT
        id, queue, kind,
        CASE WHEN parks THEN current_state || '-scheduled' ELSE current_state END,
        CASE WHEN parks THEN current_state ELSE home_target END,
        CASE WHEN parks THEN 'parked' ELSE 'ready' END,
        current_state, home_target, rank,
        statement_timestamp() + (place - 1) * interval '1 microsecond', statement_timestamp(), clock, work_timeout,
        CASE WHEN parks THEN release_time ELSE statement_timestamp() + clock END, 0,
        0, max_attempts, backoff, backoff_max, backoff_multiplier, jitter, 0, max_lost,
        0, metadata
    FROM item
    ON CONFLICT (id) DO NOTHING
    RETURNING {record}
),
given AS (
    INSERT INTO payloads (id, bytes, content_type, is_json)
    SELECT id, payload, content_type, is_json
    FROM item
    WHERE payload IS NOT NULL
    ON CONFLICT (id) DO NOTHING
)
SELECT {record}
FROM submitted AS t
