-- Claim these tasks as far as they are still ready in one of the queues and the state.
WITH claimed AS (
    {claim}
    WHERE t.id = ANY($3::uuid[]) AND t.queue = ANY($1::text[]) AND t.current_state = $2::text AND t.phase = 'ready'
    RETURNING {record}
)
{hand_out}
