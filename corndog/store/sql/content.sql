-- Read a task's payload or result; no row if there is no such task, nulls if it has none.
SELECT c.bytes, c.content_type, c.is_json
FROM (
    SELECT id FROM tasks WHERE id = $1::uuid
    UNION ALL
    SELECT id FROM archived_tasks WHERE id = $1::uuid
) AS t
LEFT JOIN {table} AS c ON c.id = t.id
