placed AS (
    SELECT picked.id, row_number() OVER (ORDER BY picked.rank, picked.submit_time, picked.id) AS place
    FROM picked
)
