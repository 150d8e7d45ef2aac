-- Claim the first ready tasks over several queues in one state, for one claim after the other. The heads of the queues
-- ($12 of each) are read without locks, and only those that are taken get locked. When others take all of the heads
-- first, this finds fewer than there are.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH {slots},
head AS (
    SELECT found.id
    FROM unnest($9::text[]) AS wanted (queue)
    CROSS JOIN LATERAL (
        SELECT t.id
        FROM tasks AS t
        WHERE t.queue = wanted.queue AND t.current_state = $10::text AND t.phase = 'ready'
        ORDER BY t.rank, t.submit_time, t.id
        LIMIT $12::int8
    ) AS found
),
picked AS (
    SELECT t.id, t.rank, t.submit_time
    FROM tasks AS t
    JOIN head ON head.id = t.id
    WHERE CASE WHEN t.queue = ANY($9::text[]) AND t.current_state = $10::text AND t.phase = 'ready' THEN true END
    ORDER BY t.rank, t.submit_time, t.id
    LIMIT $11::int8
    FOR UPDATE OF t SKIP LOCKED
),
{placed},
claimed AS (
    {claim}
    FROM placed
    JOIN slot ON placed.place BETWEEN slot.first_place AND slot.last_place
    WHERE t.id = placed.id
        AND CASE WHEN t.queue = ANY($9::text[]) AND t.current_state = $10::text AND t.phase = 'ready' THEN true END
    RETURNING {record}, t.write_token, $10::text AS prior_state
),
counted AS (
    {count_moves:claimed}
)
{hand_out}
