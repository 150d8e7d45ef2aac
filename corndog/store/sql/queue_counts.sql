-- Count the live tasks of every state in one queue.
SELECT queue, current_state, count(*)
FROM tasks
WHERE queue = $1::text
GROUP BY queue, current_state
ORDER BY current_state
