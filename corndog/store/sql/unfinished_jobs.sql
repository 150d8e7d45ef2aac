-- Give the next jobs ($4) in a state ($1), after the place ($2, $3), in order of their submit time.
SELECT j.submit_time, j.id
FROM jobs AS j
WHERE j.status = $1::text AND (j.submit_time, j.id) > ($2::timestamptz, $3::uuid)
ORDER BY j.submit_time, j.id
LIMIT $4::int8
