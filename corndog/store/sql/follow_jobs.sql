-- Store what their tasks say about these jobs ($1). A job that was changed since it was looked at is left alone, and
-- answered: what was seen of it may be old.
WITH seen AS (
    SELECT j.id, j.status, j.update_time, {derived_status} AS derived
    FROM jobs AS j
    WHERE j.id = ANY($1::uuid[])
),
prior AS (
    SELECT j.id, seen.derived
    FROM jobs AS j
    JOIN seen ON seen.id = j.id
    WHERE seen.derived <> seen.status AND j.update_time = seen.update_time
    ORDER BY j.id
    FOR UPDATE OF j
),
stored AS (
    UPDATE jobs AS j
    SET status = prior.derived,
        update_time = statement_timestamp(),
        end_time = CASE WHEN prior.derived IN ('completed', 'failed', 'canceled') THEN statement_timestamp() END
    FROM prior
    WHERE j.id = prior.id
    RETURNING j.id
)
SELECT seen.id
FROM seen
WHERE seen.derived <> seen.status AND NOT EXISTS (SELECT FROM stored WHERE stored.id = seen.id)
