(
        SELECT
            spread.shard,
            coalesce(
                (SELECT f.write_time FROM count_floor AS f WHERE f.id = 0), '1970-01-01 00:00:00+00'::timestamptz
            ) AS floor_time
        FROM generate_series(0, 7) AS spread (shard)
    ) AS part
