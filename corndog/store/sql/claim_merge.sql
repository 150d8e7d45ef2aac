-- Claim the first ready tasks over several queues in one state. The heads of the queues ($10 of each) are read
-- without locks, and only those that are taken get locked. When others take all of the heads first, this finds fewer
-- than there are.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH head AS (
    SELECT found.id
    FROM unnest($1::text[]) AS wanted (queue)
    CROSS JOIN LATERAL (
        SELECT t.id
        FROM tasks AS t
        WHERE t.queue = wanted.queue AND t.current_state = $2::text AND t.phase = 'ready'
        ORDER BY t.rank, t.submit_time, t.id
        LIMIT $10::int8
    ) AS found
),
picked AS (
    SELECT t.id
    FROM tasks AS t
    JOIN head ON head.id = t.id
    WHERE CASE WHEN t.queue = ANY($1::text[]) AND t.current_state = $2::text AND t.phase = 'ready' THEN true END
    ORDER BY t.rank, t.submit_time, t.id
    LIMIT $3::int8
    FOR UPDATE OF t SKIP LOCKED
),
claimed AS (
    {claim}
    FROM picked
    WHERE t.id = picked.id
        AND CASE WHEN t.queue = ANY($1::text[]) AND t.current_state = $2::text AND t.phase = 'ready' THEN true END
    RETURNING {record}
)
{hand_out}
