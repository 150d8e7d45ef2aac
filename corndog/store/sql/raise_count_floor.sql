-- Let reads begin at differences that are no older than $1: longer than any transaction takes, so that none comes any
-- more. As long as an older one is left to fold, the floor stays where it is.
INSERT INTO count_floor AS f (id, write_time)
SELECT 0, statement_timestamp() - $1::interval
WHERE NOT EXISTS (
    SELECT
    FROM {shards}
    JOIN count_deltas AS d ON d.shard = part.shard AND d.write_time >= part.floor_time
    WHERE d.write_time < statement_timestamp() - $1::interval
)
ON CONFLICT (id) DO UPDATE
SET write_time = excluded.write_time
WHERE f.write_time < excluded.write_time
