-- Find what an earlier run of the same claim has taken: its answer was lost with the connection.
WITH claimed AS (
    SELECT {record}
    FROM tasks AS t
    WHERE t.held_by = $1::text AND t.write_token = $2::uuid AND t.phase = 'held'
)
{hand_out}
