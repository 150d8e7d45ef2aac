-- List a page ($11 tasks) of one job's tasks by submit time and id, after the place ($9, $10) of the cursor: a job is
-- small enough to be read whole. Bounds are always given: an open one is an extreme time.
WITH page AS (
    SELECT {record}
    FROM {table} AS t
    WHERE t.job_id = $13::uuid
        AND CASE
            WHEN ($1::text IS NULL OR t.queue = $1::text)
                AND ($2::text IS NULL OR t.current_state = $2::text)
                AND ($3::text IS NULL OR t.phase = $3::text)
                AND ($4::text IS NULL OR t.kind = $4::text)
                AND ($5::text IS NULL OR t.held_by = $5::text)
                AND (t.submit_time, t.id) > ($9::timestamptz, $10::uuid)
                AND t.submit_time >= $6::timestamptz AND t.submit_time < $7::timestamptz
            THEN true
        END
    ORDER BY t.submit_time, t.id
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
