-- Drop these keys, as far as nobody has renewed them or taken them for another request since, and nothing that was made
-- under them lives again.
WITH item AS (
    SELECT *
    FROM unnest($1::text[], $2::timestamptz[]) AS item (key, check_time)
),
prior AS (
    SELECT k.key, item.check_time
    FROM idempotency_keys AS k
    JOIN item ON item.key = k.key
    WHERE CASE WHEN k.check_time = item.check_time THEN true END
    ORDER BY k.key
    FOR UPDATE OF k
)
DELETE FROM idempotency_keys AS k
USING prior
WHERE k.key = prior.key AND CASE WHEN k.check_time = prior.check_time THEN true END
    AND NOT EXISTS (SELECT FROM unnest(k.task_ids) AS made (id) JOIN tasks AS t ON t.id = made.id)
    AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.id = k.job_id AND j.end_time IS NULL)
