-- Claim these tasks (id, queue, rank, state), each as its own claim wants it, as far as they are still ready there and
-- at that rank. One that another write has locked is passed over: whoever has it may be claiming it.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH slot AS (
    SELECT candidate.*
    FROM unnest(
        $2::text[], $3::text[], $4::interval[], $5::text[], $6::uuid[], $7::uuid[], $8::text[], $9::int8[], $10::text[]
    ) AS candidate (new_state, new_target, timeout, worker_id, token, id, queue, rank, state)
    JOIN tasks AS t ON t.id = candidate.id
    WHERE {still_ready}
    ORDER BY t.id
    FOR UPDATE OF t SKIP LOCKED
),
claimed AS (
    {claim}
    FROM slot
    WHERE t.id = slot.id
        AND CASE
            WHEN t.queue = slot.queue AND t.rank = slot.rank AND t.current_state = slot.state AND t.phase = 'ready'
            THEN true
        END
    RETURNING {record}, t.write_token, slot.state AS prior_state
),
counted AS (
    {count_moves:claimed}
)
{hand_out}
