-- Set when these keys are looked at again, as far as nobody has renewed them or taken them for another request since.
WITH item AS (
    SELECT *
    FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::bool[])
        AS item (key, check_time, next_time, is_gone)
),
prior AS (
    SELECT k.key, item.check_time, item.next_time, item.is_gone
    FROM idempotency_keys AS k
    JOIN item ON item.key = k.key
    WHERE CASE WHEN k.check_time = item.check_time THEN true END
    ORDER BY k.key
    FOR UPDATE OF k
)
UPDATE idempotency_keys AS k
SET check_time = prior.next_time, is_gone = prior.is_gone
FROM prior
WHERE k.key = prior.key AND CASE WHEN k.check_time = prior.check_time THEN true END
