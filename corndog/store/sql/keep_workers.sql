-- Write down that these workers were heard of just now, and tell of each whether it is to drain.
INSERT INTO workers (id, first_seen, last_seen, drains, metadata)
SELECT item.id, statement_timestamp(), statement_timestamp(), false, item.metadata
FROM unnest($1::text[], $2::text[]) AS item (id, metadata)
ORDER BY item.id
ON CONFLICT (id) DO UPDATE
SET last_seen = greatest(workers.last_seen, excluded.last_seen),
    metadata = coalesce(excluded.metadata, workers.metadata)
RETURNING id, drains
