"""Every transition of a task, as a pure function from a record to a record.

Each gives only a legal combination of fields. `now` is the database's time of the statement that does it. A
function that needs a certain phase says so in its first line and asserts it; what a *caller* may ask for is
decided by `check_match`.
"""

from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

import msgspec

from corndog.domain.errors import Code, Conflict, Invalid
from corndog.domain.task import (
    ARCHIVED,
    SCHEDULED_SUFFIX,
    WORKING_SUFFIX,
    Change,
    Claim,
    Match,
    NewTask,
    Outcome,
    Phase,
    Run,
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


# What may be asked -----------------------------------------------------------


def check_new(new: NewTask, at: str = "") -> None:
    """Hold a submit to the rules that concern more than one field; `at` prefixes the field named in the error.

    Raises:
        Invalid: `delay` and `run_at` together, or a clock that would end in a state without workers.

    """
    if new.delay is not None and new.run_at is not None:
        raise Invalid("give either `delay` or `run_at`, not both", field=f"{at}run_at")
    _check_clock(new.timeout, new.auto_target_state, new.current_state, at)


def check_change(task: Task, change: Change) -> None:
    """Hold an update to the rule on clocks, which needs to know whether it moves the task.

    Raises:
        Invalid: a new state with a clock that would end in a state without workers.

    """
    if is_move(task, change) and change.new_state is not None:
        _check_clock(change.timeout, change.auto_target_state, change.new_state, "")


def is_move(task: Task, change: Change) -> bool:
    """Whether an update changes the state; otherwise it is a progress write."""
    return change.new_state is not None and change.new_state != task.current_state


def check_given(match: Match) -> None:
    """Refuse a write that says nothing about the task that it takes itself to write.

    Raises:
        Invalid: neither `delivery` nor `current_state` is given.

    """
    if match.delivery is None and match.current_state is None:
        raise Invalid(
            "required: a held task is written with its `delivery`, any other with its `current_state`",
            field="current_state",
        )


def _check_clock(timeout: timedelta | None, target: str | None, state: str, at: str) -> None:
    if timeout and target is None:
        raise Invalid(
            f"with a `timeout`, an unclaimed task would time out into `{working(state)}`, where no worker looks: "
            "name an `auto_target_state`, or give `work_timeout` if you meant the time that each claim gets",
            field=f"{at}timeout",
        )


def check_match(task: Task, match: Match, *, parked_too: bool) -> None:
    """Demand that the caller's view of the task is right, and that the task may be written by it.

    `parked_too` allows tasks that are parked until a time, as update and complete do.

    Raises:
        Conflict: it is not, and this says what is there.

    """
    if task.phase in ARCHIVED:
        raise Conflict(Code.ENDED, f"the task has already ended: it is {task.phase}", task)
    if task.phase is Phase.HELD and match.delivery is None:
        raise Conflict(Code.HELD, f"the task is held (delivery {task.delivery}): only its holder may write it", task)
    check_fields(task, match)
    if task.is_blocked:
        raise Conflict(Code.BLOCKED, "the task waits for other tasks: it can only be canceled", task)
    if task.phase is Phase.PARKED and not parked_too:
        raise Conflict(Code.STATE_MISMATCH, f"the task is parked in state {task.current_state!r}", task)


def check_fields(task: Task, match: Match) -> None:
    """Demand that each given field agrees with the task, and that a given delivery holds it.

    Raises:
        Conflict: one does not.

    """
    if match.delivery is not None and (task.phase is not Phase.HELD or task.delivery != match.delivery):
        raise Conflict(Code.STALE_DELIVERY, f"delivery {match.delivery} does not hold the task", task)
    if match.queue is not None and match.queue != task.queue:
        raise Conflict(Code.QUEUE_MISMATCH, f"the task is in queue {task.queue!r}", task)
    if match.current_state is not None and match.current_state != task.current_state:
        raise Conflict(Code.STATE_MISMATCH, f"the task is in state {task.current_state!r}", task)


# What happens then -----------------------------------------------------------


def submit(new: NewTask, task_id: UUID, now: datetime, place: int = 0) -> Task:
    """Make a task; ready, or parked until its time. `place` is its index in the group it is submitted with."""
    target = _or(new.auto_target_state, working(new.current_state))
    release_time = _or(new.run_at, now + _or(new.delay, timedelta(0)))
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
        job_id=None,
        name=None,
        waiting_on=0,
        last_error=None,
        metadata=new.metadata,
    )
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


def end(task: Task, phase: Phase, now: datetime) -> Task:
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
    )


def ended_run(task: Task, outcome: Outcome, now: datetime, request: bytes | None) -> Run | None:
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


def _park(task: Task, suffix: str, until: datetime, now: datetime) -> Task:
    return msgspec.structs.replace(
        task,
        current_state=task.home_state + suffix,
        auto_target_state=task.home_state,
        phase=Phase.PARKED,
        due_time=until,
        update_time=now,
    )
