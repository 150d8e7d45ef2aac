-- List a page ($7 jobs) in these states ($1), the newest first, before the place ($2, $3) of the cursor. Of a job that
-- has not ended the status is what its tasks say. Bounds are always given: an open one is an extreme time.
SELECT
    j.id, j.name,
    CASE WHEN j.end_time IS NULL THEN {derived_status} ELSE j.status END,
    j.submit_time, j.update_time, j.end_time, j.task_count, j.metadata
FROM (
    SELECT listed.*
    FROM unnest($1::text[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT {job}
        FROM jobs AS j
        WHERE j.status = wanted.status
            AND (j.submit_time, j.id) < ($2::timestamptz, $3::uuid)
            AND j.submit_time >= $4::timestamptz AND j.submit_time < $5::timestamptz
            AND ($6::text IS NULL OR j.name = $6::text)
        ORDER BY j.submit_time DESC, j.id DESC
        LIMIT $7::int8
    ) AS listed
    ORDER BY listed.submit_time DESC, listed.id DESC
    LIMIT $7::int8
) AS j
ORDER BY j.submit_time DESC, j.id DESC
