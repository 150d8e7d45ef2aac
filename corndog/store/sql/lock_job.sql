-- Take a job, so that of its cancellations and revivals one comes after the other.
SELECT j.id
FROM jobs AS j
WHERE j.id = $1::uuid
ORDER BY j.id
FOR UPDATE
