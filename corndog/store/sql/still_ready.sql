-- Of these tasks (id, queue, rank, state), tell which are still ready there and at that rank, locked or not.
SELECT t.id
FROM unnest($1::uuid[], $2::text[], $3::int8[], $4::text[]) AS candidate (id, queue, rank, state)
JOIN tasks AS t ON t.id = candidate.id
WHERE {still_ready}
