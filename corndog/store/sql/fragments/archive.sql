INSERT INTO archived_tasks (
        id, queue, kind, current_state, auto_target_state, phase, home_state, home_target, rank,
        submit_time, update_time, timeout, work_timeout, due_time, delivery, held_by, claim_time,
        attempt, max_attempts, backoff, backoff_max, backoff_multiplier, jitter, lost, max_lost,
        job_id, name, waiting_on, last_error, metadata, start_delay, start_at, canceled_by,
        outcome, request, next_task_ids
    )
    SELECT
        t.id, t.queue, t.kind, ending.phase, ending.phase, ending.phase, t.home_state, t.home_target, t.rank,
        t.submit_time, statement_timestamp(), NULL, t.work_timeout, NULL, t.delivery, t.held_by, t.claim_time,
        t.attempt + ending.attempt, t.max_attempts, t.backoff, t.backoff_max, t.backoff_multiplier, t.jitter,
        t.lost + ending.lost, t.max_lost, t.job_id, t.name, t.waiting_on, coalesce(ending.error, t.last_error),
        t.metadata, t.start_delay, t.start_at, ending.canceled_by,
        ending.outcome, ending.request, ending.next_task_ids
