-- Count the live tasks of every queue and state: the totals, and the differences that are not yet folded into them.
SELECT found.queue, found.current_state, sum(found.tasks)::int8
FROM (
    SELECT c.queue, c.current_state, c.tasks
    FROM queue_state_counts AS c
    UNION ALL
    SELECT d.queue, d.current_state, d.tasks
    FROM {shards}
    JOIN count_deltas AS d ON d.shard = part.shard AND d.write_time >= part.floor_time
) AS found
GROUP BY found.queue, found.current_state
HAVING sum(found.tasks) > 0
ORDER BY found.queue, found.current_state
