-- Read what is kept under a key.
SELECT k.request, k.job_id, k.task_ids, k.answer
FROM idempotency_keys AS k
WHERE k.key = $1::text
