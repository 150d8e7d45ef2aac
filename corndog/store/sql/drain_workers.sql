-- Mark these workers to drain, or not to ($2). One that has sent no heartbeat is known by what it holds, and was seen
-- when it claimed it; a name that is known by neither is left out.
INSERT INTO workers (id, first_seen, last_seen, drains)
SELECT item.id, coalesce(w.first_seen, held.earliest), coalesce(w.last_seen, held.latest), $2::bool
FROM unnest($1::text[]) AS item (id)
LEFT JOIN workers AS w ON w.id = item.id
LEFT JOIN LATERAL (
    SELECT min(t.claim_time) AS earliest, max(t.claim_time) AS latest
    FROM tasks AS t
    WHERE t.held_by = item.id AND t.phase = 'held'
) AS held ON true
WHERE coalesce(w.first_seen, held.earliest) IS NOT NULL
ORDER BY item.id
ON CONFLICT (id) DO UPDATE
SET drains = excluded.drains
RETURNING id
