-- Tell by how much the counts of a queue and state are short of its live tasks, or, below zero, beyond them. What is
-- written meanwhile changes both alike, and nothing of the difference.
SELECT found.queue, found.current_state, sum(found.tasks)::int8
FROM (
    SELECT t.queue, t.current_state, count(*) AS tasks
    FROM tasks AS t
    GROUP BY t.queue, t.current_state
    UNION ALL
    SELECT c.queue, c.current_state, -c.tasks
    FROM queue_state_counts AS c
    UNION ALL
    SELECT d.queue, d.current_state, -d.tasks
    FROM count_deltas AS d
) AS found
GROUP BY found.queue, found.current_state
HAVING sum(found.tasks) <> 0
ORDER BY found.queue, found.current_state
