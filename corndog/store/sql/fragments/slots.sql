slot AS (
    SELECT *
    FROM unnest($2::text[], $3::text[], $4::interval[], $5::text[], $6::uuid[], $7::int8[], $8::int8[])
        AS slot (new_state, new_target, timeout, worker_id, token, first_place, last_place)
)
