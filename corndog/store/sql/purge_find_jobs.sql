-- Find a batch ($5) of jobs that seem to have been $1 for $2 or longer, in the order in which they ended, after the
-- place ($3, $4). These are candidates, no more: the stored status may lag behind.
SELECT j.end_time, j.id, j.task_count
FROM jobs AS j
WHERE j.status = $1::text AND j.end_time IS NOT NULL AND j.end_time <= statement_timestamp() - $2::interval
    AND (j.end_time, j.id) > ($3::timestamptz, $4::uuid)
    AND j.update_time <= statement_timestamp() - $2::interval
ORDER BY j.end_time, j.id
LIMIT $5::int8
