-- Read, without locks, the first ready tasks ($6) of each of these queues and states after a place (rank, submit time,
-- id), and of those the first ($7).
SELECT wanted.queue, wanted.state, head.rank, head.submit_time, head.id
FROM unnest($1::text[], $2::text[], $3::int8[], $4::timestamptz[], $5::uuid[])
    AS wanted (queue, state, rank, submit_time, id)
CROSS JOIN LATERAL (
    SELECT t.rank, t.submit_time, t.id
    FROM tasks AS t
    WHERE t.queue = wanted.queue AND t.current_state = wanted.state AND t.phase = 'ready'
        AND (t.rank, t.submit_time, t.id) > (wanted.rank, wanted.submit_time, wanted.id)
    ORDER BY t.rank, t.submit_time, t.id
    LIMIT $6::int8
) AS head
ORDER BY head.rank, head.submit_time, head.id
LIMIT $7::int8
