-- Find what an earlier run of the same claims (worker, token) has taken: its answer was lost with the connection.
WITH claimed AS (
    SELECT {record}, t.write_token
    FROM unnest($1::text[], $2::uuid[]) AS claim (worker_id, token)
    JOIN tasks AS t ON t.held_by = claim.worker_id AND t.write_token = claim.token AND t.phase = 'held'
)
{hand_out}
