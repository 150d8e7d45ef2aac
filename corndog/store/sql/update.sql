-- Move tasks to a new state, or write their progress. Clocks that would end in a derived working state are refused.
WITH item AS (
    SELECT *
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::int8[], $5::text[], $6::text[], $7::interval[], $8::int8[],
        $9::bytea[], $10::text[], $11::bool[], $12::bytea[], $13::uuid[]
    ) AS item (
        id, queue, current_state, delivery, new_state, new_target, timeout, rank,
        payload, content_type, is_json, request, token
    )
),
prior AS (
    SELECT
        item.*, t.current_state AS prior_state, t.phase, t.held_by, t.claim_time,
        coalesce(item.new_state <> t.current_state, false) AS moves
    FROM tasks AS t
    JOIN item ON {matches}
    WHERE item.new_target IS NOT NULL
        OR coalesce(item.timeout, interval '0') = interval '0'
        OR coalesce(item.new_state = t.current_state, true)
    ORDER BY t.id
    FOR UPDATE OF t
),
changed AS (
    UPDATE tasks AS t
    SET current_state = CASE WHEN item.moves THEN item.new_state ELSE t.current_state END,
        auto_target_state = CASE
            WHEN item.moves THEN coalesce(item.new_target, item.new_state || '-working')
            WHEN t.phase = 'parked' THEN t.auto_target_state
            ELSE coalesce(item.new_target, t.auto_target_state)
        END,
        phase = CASE WHEN item.moves THEN 'ready' ELSE t.phase END,
        home_state = CASE WHEN item.moves THEN item.new_state ELSE t.home_state END,
        home_target = CASE
            WHEN item.moves THEN coalesce(item.new_target, item.new_state || '-working')
            WHEN t.phase = 'held' THEN t.home_target
            ELSE coalesce(item.new_target, t.home_target)
        END,
        rank = item.rank,
        timeout = CASE
            WHEN item.moves OR item.timeout IS NOT NULL THEN nullif(item.timeout, interval '0')
            ELSE t.timeout
        END,
        due_time = CASE
            WHEN item.moves THEN statement_timestamp() + nullif(item.timeout, interval '0')
            WHEN t.phase = 'parked' OR item.timeout IS NULL THEN t.due_time
            ELSE statement_timestamp() + nullif(item.timeout, interval '0')
        END,
        held_by = CASE WHEN item.moves THEN NULL ELSE t.held_by END,
        claim_time = CASE WHEN item.moves THEN NULL ELSE t.claim_time END,
        lost = CASE WHEN item.moves THEN 0 ELSE t.lost END,
        update_time = statement_timestamp(),
        write_token = item.token
    FROM prior AS item
    WHERE {matches}
    RETURNING
        {record},
        item.prior_state,
        item.payload, item.content_type, item.is_json, item.request,
        item.phase = 'held' AND item.moves AS ends_hold, item.held_by AS worker_id, item.claim_time AS began
),
given AS (
    INSERT INTO payloads (id, bytes, content_type, is_json)
    SELECT id, payload, content_type, is_json
    FROM changed
    WHERE payload IS NOT NULL
    ON CONFLICT (id) DO UPDATE
    SET bytes = excluded.bytes, content_type = excluded.content_type, is_json = excluded.is_json
),
run AS (
    INSERT INTO task_runs (task_id, delivery, worker_id, claim_time, end_time, outcome, request)
    SELECT id, delivery, worker_id, began, statement_timestamp(), 'moved', request
    FROM changed
    WHERE ends_hold
),
counted AS (
    {count_moves:changed}
)
SELECT {record}
FROM changed AS t
