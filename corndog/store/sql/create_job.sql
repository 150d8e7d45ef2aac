-- Make a job, of which the tasks and their dependencies are written next, in the same transaction.
INSERT INTO jobs AS j (id, name, status, submit_time, update_time, task_count, metadata)
VALUES ($1::uuid, $2::text, 'pending', statement_timestamp(), statement_timestamp(), $3::int4, $4::text)
RETURNING {job}
