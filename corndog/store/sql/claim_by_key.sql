-- Claim these tasks (id, queue, rank) as far as they are still ready there in the state $10 and at that rank. One that
-- another write has locked is passed over: whoever has it may be claiming it.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH picked AS (
    SELECT t.id, candidate.queue, candidate.rank
    FROM unnest($1::uuid[], $2::text[], $3::int8[]) AS candidate (id, queue, rank)
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
