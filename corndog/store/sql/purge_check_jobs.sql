-- Tell of which of these jobs ($1), which are taken, all tasks have ended as the stored status says.
SELECT j.id
FROM jobs AS j
WHERE j.id = ANY($1::uuid[])
    AND CASE WHEN j.status = {derived_status} THEN j.status IN ('completed', 'failed', 'canceled') END
