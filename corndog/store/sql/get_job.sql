-- Read a job as it is stored: its tasks say what its status is.
SELECT {job}
FROM jobs AS j
WHERE j.id = $1::uuid
