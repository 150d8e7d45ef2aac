-- Read what is kept under keys.
SELECT k.key, k.request, k.job_id, k.task_ids, k.answer
FROM idempotency_keys AS k
WHERE k.key = ANY($1::text[])
