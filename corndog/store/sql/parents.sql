-- Read what these tasks ($1) depend on: how each ended, and its result and error as long as all of them together, in
-- order, are no larger than $2 bytes. Of the errors beyond that the beginnings are read: ten thousand may be 640 MiB.
WITH child AS (
    SELECT *
    FROM unnest($1::uuid[]) WITH ORDINALITY AS child (id, place)
),
parent AS (
    SELECT
        d.child_id, d.parent_id, coalesce(ended.name, live.name) AS name, coalesce(ended.phase, live.phase) AS phase,
        coalesce(ended.last_error, live.last_error) AS last_error,
        sum(
            coalesce(octet_length(r.bytes), 0)
            + coalesce(octet_length(coalesce(ended.last_error, live.last_error)), 0)
        ) OVER (ORDER BY child.place, d.parent_id) AS size_so_far,
        r.id IS NOT NULL AS has_result
    FROM child
    JOIN task_dependencies AS d ON d.child_id = child.id
    LEFT JOIN archived_tasks AS ended ON ended.id = d.parent_id
    LEFT JOIN tasks AS live ON live.id = d.parent_id
    LEFT JOIN results AS r ON r.id = d.parent_id
)
SELECT
    parent.child_id, parent.name, parent.phase,
    CASE
        WHEN parent.size_so_far > $2::int8 AND length(parent.last_error) > 200
            THEN left(parent.last_error, 192) || ' … (cut)'
        ELSE parent.last_error
    END,
    parent.has_result AND parent.size_so_far > $2::int8 AS is_omitted,
    r.bytes, r.content_type, r.is_json
FROM parent
LEFT JOIN results AS r ON parent.size_so_far <= $2::int8 AND r.id = parent.parent_id
ORDER BY parent.child_id, parent.name
