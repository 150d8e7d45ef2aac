-- Claim these tasks as far as they are still ready in one of the queues and the state.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH claimed AS (
    {claim}
    WHERE t.id = ANY($3::uuid[])
        AND CASE WHEN t.queue = ANY($1::text[]) AND t.current_state = $2::text AND t.phase = 'ready' THEN true END
    RETURNING {record}
)
{hand_out}
