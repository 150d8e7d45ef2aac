-- Read, without locks, the first ready tasks of each queue in one state, and of those the first overall.
SELECT head.id
FROM unnest($1::text[]) AS wanted (queue)
CROSS JOIN LATERAL (
    SELECT t.id, t.rank, t.submit_time
    FROM tasks AS t
    WHERE t.queue = wanted.queue AND t.current_state = $2::text AND t.phase = 'ready'
    ORDER BY t.rank, t.submit_time, t.id
    LIMIT $3::int8
) AS head
ORDER BY head.rank, head.submit_time, head.id
LIMIT $3::int8
