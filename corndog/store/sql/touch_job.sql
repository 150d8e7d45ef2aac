-- Mark a job as changed. Whoever has read its status before this can't store it any more.
UPDATE jobs AS j
SET update_time = statement_timestamp()
WHERE j.id = $1::uuid
