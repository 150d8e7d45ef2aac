-- Give held tasks back to their home pair: ready, or parked there by a delay.
WITH item AS (
    SELECT *, coalesce(item.delay > interval '0', false) AS parks
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::int8[], $5::interval[], $6::bytea[], $7::uuid[]
    ) AS item (id, queue, current_state, delivery, delay, request, token)
),
prior AS (
    SELECT item.*, t.current_state AS prior_state, t.held_by, t.claim_time
    FROM tasks AS t
    JOIN item ON {matches}
    WHERE t.phase = 'held'
    ORDER BY t.id
    FOR UPDATE OF t
),
released AS (
    UPDATE tasks AS t
    SET current_state = CASE WHEN item.parks THEN t.home_state || '-scheduled' ELSE t.home_state END,
        auto_target_state = CASE WHEN item.parks THEN t.home_state ELSE t.home_target END,
        phase = CASE WHEN item.parks THEN 'parked' ELSE 'ready' END,
        timeout = NULL,
        due_time = CASE WHEN item.parks THEN statement_timestamp() + item.delay END,
        held_by = NULL,
        claim_time = NULL,
        update_time = statement_timestamp(),
        write_token = item.token
    FROM prior AS item
    WHERE t.phase = 'held' AND {matches}
    RETURNING {record}, item.prior_state, item.held_by AS worker_id, item.claim_time AS began, item.request
),
run AS (
    INSERT INTO task_runs (task_id, delivery, worker_id, claim_time, end_time, outcome, request)
    SELECT id, delivery, worker_id, began, statement_timestamp(), 'released', request
    FROM released
),
counted AS (
    {count_moves:released}
)
SELECT {record}
FROM released AS t
