-- Keep a key with the hash of its request and what that makes, unless the key is there already.
INSERT INTO idempotency_keys (key, request, job_id, task_ids, answer, check_time, is_gone)
VALUES (
    $1::text, $2::bytea, $3::uuid, $4::uuid[], $5::bytea, statement_timestamp() + $6::interval, false
)
ON CONFLICT (key) DO NOTHING
RETURNING key
