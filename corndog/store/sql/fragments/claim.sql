UPDATE tasks AS t
    SET current_state = coalesce($4::text, t.auto_target_state),
        auto_target_state = coalesce($5::text, t.current_state),
        phase = 'held',
        timeout = nullif(coalesce($6::interval, t.work_timeout, $7::interval), interval '0'),
        due_time = statement_timestamp()
            + nullif(coalesce($6::interval, t.work_timeout, $7::interval), interval '0'),
        delivery = t.delivery + 1,
        held_by = $8::text,
        claim_time = statement_timestamp(),
        update_time = statement_timestamp(),
        write_token = $9::uuid
