-- Fold a batch ($1) of differences into the totals, if there are as many as $2: those that are visible, and no others,
-- so whoever folds at the same time takes what this leaves. $3: look below the floor, too.
WITH found AS (
    SELECT first.shard, first.write_time, first.id
    FROM {shards}
    CROSS JOIN LATERAL (
        SELECT d.shard, d.write_time, d.id
        FROM count_deltas AS d
        WHERE d.shard = part.shard
            AND d.write_time >= CASE
                WHEN $3::bool THEN '1970-01-01 00:00:00+00'::timestamptz
                ELSE part.floor_time
            END
        ORDER BY d.write_time, d.id
        LIMIT $1::int8
    ) AS first
    ORDER BY first.shard, first.write_time, first.id
    LIMIT $1::int8
),
folded AS (
    DELETE FROM count_deltas AS d
    USING found
    WHERE d.shard = found.shard AND d.write_time = found.write_time AND d.id = found.id
        AND (SELECT count(*) FROM found) >= $2::int8
    RETURNING d.queue, d.current_state, d.tasks
),
added AS (
    INSERT INTO queue_state_counts AS c (queue, current_state, tasks)
    SELECT folded.queue, folded.current_state, sum(folded.tasks)::int8
    FROM folded
    GROUP BY folded.queue, folded.current_state
    HAVING sum(folded.tasks) <> 0
    ORDER BY folded.queue, folded.current_state
    ON CONFLICT (queue, current_state) DO UPDATE
    SET tasks = c.tasks + excluded.tasks
)
SELECT count(*)
FROM folded
