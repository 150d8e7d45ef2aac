-- Claim the first ready tasks of one queue and state, passing over those that others are taking right now, for one
-- claim after the other.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH {slots},
picked AS (
    SELECT t.id, t.rank, t.submit_time
    FROM tasks AS t
    WHERE t.queue = $9::text AND t.current_state = $10::text AND t.phase = 'ready'
    ORDER BY t.rank, t.submit_time, t.id
    LIMIT $11::int8
    FOR UPDATE SKIP LOCKED
),
{placed},
claimed AS (
    {claim}
    FROM placed
    JOIN slot ON placed.place BETWEEN slot.first_place AND slot.last_place
    WHERE t.id = placed.id
        AND CASE WHEN t.queue = $9::text AND t.current_state = $10::text AND t.phase = 'ready' THEN true END
    RETURNING {record}, t.write_token, $10::text AS prior_state
),
counted AS (
    {count_moves:claimed}
)
{hand_out}
