-- Claim the first ready tasks of one queue and state, passing over those that another claim is taking right now.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH picked AS (
    SELECT t.id
    FROM tasks AS t
    WHERE t.queue = $1::text AND t.current_state = $2::text AND t.phase = 'ready'
    ORDER BY t.rank, t.submit_time, t.id
    LIMIT $3::int8
    FOR UPDATE SKIP LOCKED
),
claimed AS (
    {claim}
    FROM picked
    WHERE t.id = picked.id
        AND CASE WHEN t.queue = $1::text AND t.current_state = $2::text AND t.phase = 'ready' THEN true END
    RETURNING {record}
)
{hand_out}
