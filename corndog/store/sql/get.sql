-- Read tasks, live or archived, with their payloads ($2) and results ($3) if wanted.
WITH found AS (
    SELECT {record} FROM tasks AS t WHERE t.id = ANY($1::uuid[])
    UNION ALL
    SELECT {record} FROM archived_tasks AS t WHERE t.id = ANY($1::uuid[])
)
SELECT
    {record},
    p.bytes, p.content_type, p.is_json,
    r.bytes, r.content_type, r.is_json
FROM found AS t
LEFT JOIN payloads AS p ON $2::bool AND p.id = t.id
LEFT JOIN results AS r ON $3::bool AND r.id = t.id
