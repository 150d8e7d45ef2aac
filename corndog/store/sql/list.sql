-- List a page ($11 tasks) by submit time and id, after the place ($9, $10) of the cursor. The (queue, state) pairs
-- there are get found by jumping along the index from one to the next, and each gives its own first tasks; so the
-- page costs what it shows, not what the table holds. Bounds are always given: an open one is an extreme time.
WITH RECURSIVE pair AS (
    (
        SELECT t.queue, t.current_state
        FROM {table} AS t
        WHERE t.queue >= coalesce($1::text, '')
        ORDER BY t.queue, t.current_state
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.current_state
    FROM pair
    CROSS JOIN LATERAL (
        SELECT t.queue, t.current_state
        FROM {table} AS t
        WHERE (t.queue, t.current_state) > (pair.queue, pair.current_state)
        ORDER BY t.queue, t.current_state
        LIMIT 1
    ) AS following
    WHERE $1::text IS NULL OR pair.queue = $1::text
),
page AS (
    SELECT listed.*
    FROM pair
    CROSS JOIN LATERAL (
        SELECT {record}
        FROM {table} AS t
        WHERE t.queue = pair.queue AND t.current_state = pair.current_state
            AND (t.submit_time, t.id) > ($9::timestamptz, $10::uuid)
            AND t.submit_time >= $6::timestamptz AND t.submit_time < $7::timestamptz
            AND ($3::text IS NULL OR t.phase = $3::text)
            AND ($4::text IS NULL OR t.kind = $4::text)
            AND ($5::text IS NULL OR t.held_by = $5::text)
        ORDER BY t.submit_time, t.id
        LIMIT $11::int8
    ) AS listed
    WHERE ($1::text IS NULL OR pair.queue = $1::text)
        AND ($2::text IS NULL OR pair.current_state = $2::text)
    ORDER BY listed.submit_time, listed.id
    LIMIT $11::int8
)
SELECT
    {record},
    p.bytes, p.content_type, p.is_json,
    r.bytes, r.content_type, r.is_json
FROM page AS t
LEFT JOIN payloads AS p ON $8::bool AND p.id = t.id
LEFT JOIN results AS r ON $12::bool AND r.id = t.id
ORDER BY t.submit_time, t.id
