-- Of these tasks (id, queue, rank), tell which are still ready there in a state and at that rank, locked or not.
SELECT t.id
FROM unnest($1::uuid[], $2::text[], $3::int8[]) AS candidate (id, queue, rank)
JOIN tasks AS t ON t.id = candidate.id
WHERE CASE
    WHEN t.queue = candidate.queue AND t.rank = candidate.rank AND t.current_state = $4::text AND t.phase = 'ready'
    THEN true
END
