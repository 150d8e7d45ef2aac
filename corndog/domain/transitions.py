"""Every transition of a task, as a pure function from a record to a record.

Each gives only a legal combination of fields. `now` is the database's time of the statement that does it. A
function that needs a certain phase says so in its first line and asserts it; what a *caller* may ask for is
decided in `corndog.domain.checks`.
"""

from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

import msgspec

from corndog.domain import retry
from corndog.domain.task import (
    ARCHIVED,
    BLOCKED_SUFFIX,
    RETRYING_SUFFIX,
    SCHEDULED_SUFFIX,
    WORKING_SUFFIX,
    CanceledBy,
    Change,
    Claim,
    Failure,
    Membership,
    NewTask,
    Outcome,
    Phase,
    Run,
    Standing,
    Task,
)

_T = TypeVar("_T")


def working(state: str) -> str:
    """Name the state that a claim swaps to when none was chosen."""
    return state + WORKING_SUFFIX


def _or(value: _T | None, default: _T) -> _T:
    return default if value is None else value


def _clock(timeout: timedelta | None) -> timedelta | None:
    """Read a clock as given: zero is none."""
    return timeout or None


def _due(now: datetime, timeout: timedelta | None) -> datetime | None:
    return None if timeout is None else now + timeout


def is_move(task: Task, change: Change) -> bool:
    """Whether an update changes the state; otherwise it is a progress write."""
    return change.new_state is not None and change.new_state != task.current_state


def submit(new: NewTask, task_id: UUID, now: datetime, place: int = 0, member: Membership | None = None) -> Task:
    """Make a task; ready, or parked until its time or until the tasks are done that it waits for.

    `place` is its index in the group it is submitted with, `member` its place in a job.
    """
    target = _or(new.auto_target_state, working(new.current_state))
    timeout = _clock(new.timeout)
    ready = Task(
        id=task_id,
        queue=new.queue,
        kind=new.kind,
        current_state=new.current_state,
        auto_target_state=target,
        phase=Phase.READY,
        home_state=new.current_state,
        home_target=target,
        priority=new.priority,
        submit_time=now + timedelta(microseconds=place),
        update_time=now,
        timeout=timeout,
        work_timeout=new.work_timeout,
        due_time=_due(now, timeout),
        delivery=0,
        held_by=None,
        claim_time=None,
        attempt=0,
        max_attempts=new.policy.max_attempts,
        backoff=new.policy.backoff,
        backoff_max=new.policy.backoff_max,
        backoff_multiplier=new.policy.backoff_multiplier,
        jitter=new.policy.jitter,
        lost=0,
        max_lost=new.policy.max_lost,
        job_id=member.job_id if member else None,
        name=member.name if member else None,
        waiting_on=member.waiting_on if member else 0,
        last_error=None,
        metadata=new.metadata,
    )
    if ready.waiting_on:
        return _park(
            msgspec.structs.replace(ready, start_delay=new.delay, start_at=new.run_at), BLOCKED_SUFFIX, None, now
        )
    release_time = _start(new.delay, new.run_at, now)
    return _park(ready, SCHEDULED_SUFFIX, release_time, now) if release_time > now else ready


def is_claimable(task: Task, claim: Claim) -> bool:
    """Whether this pull may take the task."""
    return task.phase is Phase.READY and task.queue in claim.queues and task.current_state == claim.current_state


def claim(task: Task, claim: Claim, now: datetime, default_timeout: timedelta) -> Task:
    """Hand a ready task out: its states swap, overrides apply after the swap, and its clock starts."""
    assert task.phase is Phase.READY
    timeout = _clock(_or(claim.override_timeout, _or(task.work_timeout, default_timeout)))
    return msgspec.structs.replace(
        task,
        current_state=_or(claim.override_current_state, task.auto_target_state),
        auto_target_state=_or(claim.override_auto_target_state, task.current_state),
        phase=Phase.HELD,
        timeout=timeout,
        due_time=_due(now, timeout),
        delivery=task.delivery + 1,
        held_by=claim.worker_id,
        claim_time=now,
        update_time=now,
    )


def update(task: Task, change: Change, now: datetime) -> Task:
    """Move a task to a new state, where it is ready; or write progress, which leaves a hold or a parking as is."""
    assert task.phase not in ARCHIVED
    if change.new_state is not None and change.new_state != task.current_state:
        return _move(task, change, change.new_state, now)
    timeout = task.timeout if change.timeout is None else _clock(change.timeout)
    # A held or parked task's way back is its home pair; its own pair is what it swaps to meanwhile.
    target = _or(change.auto_target_state, task.auto_target_state)
    is_parked = task.phase is Phase.PARKED
    return msgspec.structs.replace(
        task,
        auto_target_state=task.auto_target_state if is_parked else target,
        home_target=task.home_target if task.phase is Phase.HELD else _or(change.auto_target_state, task.home_target),
        priority=change.priority,
        timeout=timeout,
        due_time=task.due_time if is_parked or change.timeout is None else _due(now, timeout),
        update_time=now,
    )


def _move(task: Task, change: Change, state: str, now: datetime) -> Task:
    timeout = _clock(change.timeout)
    target = _or(change.auto_target_state, working(state))
    return msgspec.structs.replace(
        _ready(task, state, target, now),
        priority=change.priority,
        timeout=timeout,
        due_time=_due(now, timeout),
        lost=0,
    )


def release(task: Task, delay: timedelta | None, now: datetime) -> Task:
    """Give a held task back: it is ready at home again, or parked there for the delay."""
    assert task.phase is Phase.HELD
    home = _ready(task, task.home_state, task.home_target, now)
    return _park(home, SCHEDULED_SUFFIX, now + delay, now) if delay else home


def fail(task: Task, failure: Failure, now: datetime) -> Task:
    """Use an attempt up: the task is parked at home until it is tried again; or ends as failed, if that was the last.

    A pause of zero makes it ready at once.
    """
    assert task.phase is Phase.HELD
    if not failure.retryable or retry.is_spent(task):
        ended = end(task, Phase.FAILED, now)
        return msgspec.structs.replace(ended, attempt=task.attempt + 1, last_error=failure.error)
    home = msgspec.structs.replace(
        _ready(task, task.home_state, task.home_target, now), attempt=task.attempt + 1, last_error=failure.error
    )
    pause = retry.pause(task, failure)
    return _park(home, RETRYING_SUFFIX, now + pause, now) if pause else home


def standing(task: Task | None, delivery: int) -> Standing:
    """Tell how a delivery of a task stands, which may be unknown."""
    if task is not None and task.delivery == delivery:
        if task.phase is Phase.HELD:
            return Standing.HELD
        if task.phase is Phase.CANCELED:
            return Standing.CANCELED
    return Standing.LOST


def extend(task: Task, now: datetime) -> Task:
    """Extend a hold by a heartbeat: its deadline becomes now and its clock's length. Nothing else is written."""
    assert task.phase is Phase.HELD
    return msgspec.structs.replace(task, due_time=_due(now, task.timeout))


def is_timed_out(task: Task, at_time: datetime, began: datetime, queue: str | None = None) -> bool:
    """Whether a sweep that began at `began` ends this task's clock."""
    return (
        task.phase in {Phase.READY, Phase.HELD}
        and task.due_time is not None
        and task.due_time <= at_time
        and (task.claim_time is None or task.claim_time <= began)
        and queue in {None, task.queue}
    )


def time_out(task: Task, now: datetime) -> Task:
    """End a clock: the present pair swaps and becomes home. A task lost too often ends as failed."""
    assert task.due_time is not None
    lost = task.lost + (task.phase is Phase.HELD)
    if task.phase is Phase.HELD and task.max_lost is not None and lost >= task.max_lost:
        return msgspec.structs.replace(end(task, Phase.FAILED, now), lost=lost)
    swapped = _ready(task, task.auto_target_state, task.current_state, now)
    return msgspec.structs.replace(swapped, lost=lost)


def is_unparkable(task: Task, now: datetime) -> bool:
    """Whether a parked task's time has come."""
    return task.phase is Phase.PARKED and task.due_time is not None and task.due_time <= now


def unpark(task: Task, now: datetime) -> Task:
    """Make a parked task ready at home; a clock that it was given starts now."""
    assert task.phase is Phase.PARKED
    home = _ready(task, task.home_state, task.home_target, now)
    return msgspec.structs.replace(home, timeout=task.timeout, due_time=_due(now, task.timeout))


def lower(task: Task, number: int, now: datetime) -> Task:
    """Count so many of its dependencies as done; after the last, its own delay begins or its own time applies."""
    assert task.is_blocked
    lowered = msgspec.structs.replace(task, waiting_on=task.waiting_on - number, update_time=now)
    if lowered.waiting_on:
        return lowered
    release_time = _start(task.start_delay, task.start_at, now)
    return _park(lowered, SCHEDULED_SUFFIX, release_time, now) if release_time > now else unpark(lowered, now)


def revive(task: Task, waiting_on: int, now: datetime) -> Task:
    """Make an ended task live again, with a full budget: ready at home, or waiting for its open dependencies."""
    assert task.phase in {Phase.FAILED, Phase.CANCELED}
    home = msgspec.structs.replace(
        _ready(task, task.home_state, task.home_target, now),
        attempt=0,
        lost=0,
        waiting_on=waiting_on,
        last_error=None,
        canceled_by=None,
    )
    return _park(home, BLOCKED_SUFFIX, None, now) if waiting_on else home


def end(task: Task, phase: Phase, now: datetime, canceled_by: CanceledBy | None = None) -> Task:
    """Archive a task: both states say how it ended. Who held it, if anyone did, stays on record."""
    assert task.phase not in ARCHIVED
    assert phase in ARCHIVED
    return msgspec.structs.replace(
        task,
        current_state=phase.value,
        auto_target_state=phase.value,
        phase=phase,
        timeout=None,
        due_time=None,
        update_time=now,
        canceled_by=canceled_by,
    )


def ended_run(
    task: Task, outcome: Outcome, now: datetime, request: bytes | None, error: str | None = None
) -> Run | None:
    """Give the record of the delivery that a transition away from `task` ends; None if nobody held it."""
    if task.phase is not Phase.HELD or task.claim_time is None:
        return None
    return Run(
        task_id=task.id,
        delivery=task.delivery,
        worker_id=task.held_by or "",
        claim_time=task.claim_time,
        end_time=now,
        outcome=outcome,
        request=request,
        error=error,
    )


def _ready(task: Task, state: str, target: str, now: datetime) -> Task:
    return msgspec.structs.replace(
        task,
        current_state=state,
        auto_target_state=target,
        phase=Phase.READY,
        home_state=state,
        home_target=target,
        timeout=None,
        due_time=None,
        held_by=None,
        claim_time=None,
        update_time=now,
    )


def _start(delay: timedelta | None, at: datetime | None, now: datetime) -> datetime:
    """Tell when a task may start that could start now but for its own delay or time."""
    return _or(at, now + _or(delay, timedelta(0)))


def _park(task: Task, suffix: str, until: datetime | None, now: datetime) -> Task:
    return msgspec.structs.replace(
        task,
        current_state=task.home_state + suffix,
        auto_target_state=task.home_state,
        phase=Phase.PARKED,
        due_time=until,
        update_time=now,
    )
