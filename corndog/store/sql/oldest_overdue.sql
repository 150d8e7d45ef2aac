-- Tell since when the longest overdue hold has been waiting for a sweep; no row if none is.
-- In CASE, the phase chooses no index: the due times do, in their order.
SELECT t.due_time, statement_timestamp()
FROM tasks AS t
WHERE t.due_time IS NOT NULL AND t.due_time <= statement_timestamp() AND t.phase <> 'parked'
    AND CASE WHEN t.phase = 'held' THEN true END
ORDER BY t.due_time, t.id
LIMIT 1
