holder AS (
    (
        SELECT t.held_by AS id
        FROM tasks AS t
        WHERE t.phase = 'held' AND t.held_by > $1::text
        ORDER BY t.held_by
        LIMIT 1
    )
    UNION ALL
    SELECT following.id
    FROM holder
    CROSS JOIN LATERAL (
        SELECT t.held_by AS id
        FROM tasks AS t
        WHERE t.phase = 'held' AND t.held_by > holder.id
        ORDER BY t.held_by
        LIMIT 1
    ) AS following
),
seen AS MATERIALIZED (
    SELECT w.id
    FROM workers AS w
    WHERE w.last_seen >= statement_timestamp() - $3::interval
),
page AS (
    SELECT known.id
    FROM (
        (
            SELECT w.id
            FROM workers AS w
            WHERE $3::interval IS NULL AND w.id > $1::text
            ORDER BY w.id
            LIMIT $2::int8
        )
        UNION
        (
            SELECT seen.id
            FROM seen
            WHERE seen.id > $1::text
            ORDER BY seen.id
            LIMIT $2::int8
        )
        UNION
        (
            SELECT holder.id
            FROM holder
            WHERE $3::interval IS NULL
                OR EXISTS (
                    SELECT
                    FROM tasks AS t
                    WHERE t.held_by = holder.id AND t.phase = 'held'
                        AND t.claim_time >= statement_timestamp() - $3::interval
                )
            LIMIT $2::int8
        )
    ) AS known
    ORDER BY known.id
    LIMIT $2::int8
)
