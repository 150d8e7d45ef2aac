-- List the deliveries of a task in their order: those that ended while it lived on; the one that holds it, which is
-- read off the task; and the one that ended it, which is read off the archive.
SELECT run.task_id, run.delivery, run.worker_id, run.claim_time, run.end_time, run.outcome, run.request, run.error
FROM task_runs AS run
WHERE run.task_id = $1::uuid
UNION ALL
SELECT t.id, t.delivery, t.held_by, t.claim_time, NULL::timestamptz, NULL::text, NULL::bytea, NULL::text
FROM tasks AS t
WHERE t.id = $1::uuid AND t.claim_time IS NOT NULL
UNION ALL
SELECT
    t.id, t.delivery, t.held_by, t.claim_time, t.update_time, t.outcome, t.request,
    CASE WHEN t.outcome = 'failed' THEN t.last_error END
FROM archived_tasks AS t
WHERE t.id = $1::uuid AND t.claim_time IS NOT NULL
ORDER BY 2
