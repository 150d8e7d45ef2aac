-- Read, without locks, the first ready tasks ($3) of each of these queues and states, and of those the first ($4).
SELECT wanted.queue, wanted.state, head.rank, head.submit_time, head.id
FROM unnest($1::text[], $2::text[]) AS wanted (queue, state)
CROSS JOIN LATERAL (
    SELECT t.rank, t.submit_time, t.id
    FROM tasks AS t
    WHERE t.queue = wanted.queue AND t.current_state = wanted.state AND t.phase = 'ready'
    ORDER BY t.rank, t.submit_time, t.id
    LIMIT $3::int8
) AS head
ORDER BY head.rank, head.submit_time, head.id
LIMIT $4::int8
