-- Claim these tasks (id, queue, rank, state) as far as they are still ready there and at that rank. One that another
-- write has locked is passed over: whoever has it may be claiming it.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH picked AS (
    SELECT t.id, candidate.queue, candidate.rank, candidate.state
    FROM unnest($1::uuid[], $2::text[], $3::int8[], $10::text[]) AS candidate (id, queue, rank, state)
    JOIN tasks AS t ON t.id = candidate.id
    WHERE {still_ready}
    ORDER BY t.id
    FOR UPDATE OF t SKIP LOCKED
),
claimed AS (
    {claim}
    FROM picked AS candidate
    WHERE t.id = candidate.id AND {still_ready}
    RETURNING {record}
)
{hand_out}
