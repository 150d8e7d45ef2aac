t.id, t.queue, t.kind, t.current_state, t.auto_target_state, t.phase, t.home_state, t.home_target, t.rank,
    t.submit_time, t.update_time, t.timeout, t.work_timeout, t.due_time, t.delivery, t.held_by, t.claim_time,
    t.attempt, t.max_attempts, t.backoff, t.backoff_max, t.backoff_multiplier, t.jitter, t.lost, t.max_lost,
    t.job_id, t.name, t.waiting_on, t.last_error, t.metadata, t.start_delay, t.start_at,
    t.canceled_by
