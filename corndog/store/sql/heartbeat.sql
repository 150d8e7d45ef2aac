-- Extend holds: of each delivery that holds its task, the deadline becomes now and its clock's length.
-- The guards in CASE choose no index: the rows are found by their ids, even where the statistics are old.
WITH prior AS (
    SELECT t.id, item.delivery
    FROM unnest($1::uuid[], $2::int8[]) AS item (id, delivery)
    JOIN tasks AS t ON t.id = item.id
    WHERE CASE WHEN t.phase = 'held' AND t.delivery = item.delivery THEN true END
    ORDER BY t.id
    FOR UPDATE OF t
)
UPDATE tasks AS t
SET due_time = statement_timestamp() + t.timeout
FROM prior
WHERE t.id = prior.id AND CASE WHEN t.phase = 'held' AND t.delivery = prior.delivery THEN true END
RETURNING t.id, t.delivery, t.due_time, t.timeout
