UPDATE tasks AS t
    SET current_state = coalesce(slot.new_state, t.auto_target_state),
        auto_target_state = coalesce(slot.new_target, t.current_state),
        phase = 'held',
        timeout = nullif(coalesce(slot.timeout, t.work_timeout, $1::interval), interval '0'),
        due_time = statement_timestamp()
            + nullif(coalesce(slot.timeout, t.work_timeout, $1::interval), interval '0'),
        delivery = t.delivery + 1,
        held_by = slot.worker_id,
        claim_time = statement_timestamp(),
        update_time = statement_timestamp(),
        write_token = slot.token
