-- Count the live tasks of every queue and state.
SELECT queue, current_state, count(*)
FROM tasks
GROUP BY queue, current_state
ORDER BY queue, current_state
