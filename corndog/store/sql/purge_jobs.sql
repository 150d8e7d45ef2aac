-- Delete these jobs ($1), which are taken and whose tasks are gone.
DELETE FROM jobs AS j
WHERE j.id = ANY($1::uuid[]) AND CASE WHEN j.status IN ('completed', 'failed', 'canceled') THEN true END
