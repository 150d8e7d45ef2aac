"""Whatever happens to a task, and in which order: only legal combinations of fields come of it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from corndog.domain import checks, transitions
from corndog.domain.errors import Invalid
from corndog.domain.limits import NAME_MAX
from corndog.domain.task import ARCHIVED, CanceledBy, NewTask, Phase, RetryPolicy, Task
from tests.unit.samples import ID, held, ready
from tests.unit.strategies import EPOCH, changes, claims, durations, failures, members, new_tasks

ZERO = timedelta(0)
Step: TypeAlias = Callable[[Task, datetime, st.DataObject], Task]
FIXED = (
    "id", "queue", "kind", "submit_time", "work_timeout", "max_attempts", "backoff", "backoff_max",
    "backoff_multiplier", "jitter", "max_lost", "job_id", "name", "metadata", "start_delay", "start_at",
)  # fmt: skip


def assert_legal(task: Task) -> None:
    """Restate what each phase means, without looking at the transitions."""
    is_held = task.phase is Phase.HELD
    assert task.timeout is None or task.timeout > ZERO
    assert len(task.current_state) <= NAME_MAX
    assert len(task.auto_target_state) <= NAME_MAX
    assert task.delivery >= 0
    assert task.lost >= 0
    assert (task.held_by is None) == (task.claim_time is None)
    if task.phase is Phase.READY:
        assert (task.home_state, task.home_target) == (task.current_state, task.auto_target_state)
    if task.phase is Phase.PARKED:
        assert task.current_state in {task.home_state + suffix for suffix in ("-scheduled", "-retrying", "-blocked")}
        assert task.auto_target_state == task.home_state
        assert (task.due_time is None) == task.is_blocked == (task.waiting_on > 0)
        assert task.is_blocked == task.current_state.endswith("-blocked")
    else:
        assert not task.is_blocked
        assert (task.timeout is None) == (task.due_time is None)
    assert (task.phase is Phase.CANCELED) == (task.canceled_by is not None)
    if task.phase in ARCHIVED:
        assert task.current_state == task.auto_target_state == task.phase.value
        assert task.due_time is None
    else:
        assert is_held == (task.held_by is not None)
    if is_held:
        assert task.delivery > 0
        assert task.claim_time is not None
        assert task.claim_time <= task.update_time


def assert_follows(before: Task, after: Task, now: datetime) -> None:
    assert_legal(after)
    assert {name: getattr(after, name) for name in FIXED} == {name: getattr(before, name) for name in FIXED}
    assert after.update_time == now
    assert before.delivery <= after.delivery <= before.delivery + 1
    assert (after.delivery > before.delivery) == (after.phase is Phase.HELD and before.phase is not Phase.HELD)


@given(new_tasks(), st.data())
def test_every_life_is_legal(new: NewTask, data: st.DataObject) -> None:
    now = EPOCH
    checks.check_new(new)
    member = data.draw(st.none() | members)
    task = transitions.submit(new, ID, now, data.draw(st.integers(0, 999)), member)
    assert_legal(task)
    for _ in range(data.draw(st.integers(1, 12))):
        if task.phase is Phase.COMPLETED:
            break
        now += timedelta(seconds=1)
        before, task = task, step(task, now, data)
        assert_follows(before, task, now)


def step(task: Task, now: datetime, data: st.DataObject) -> Task:
    """Do to a task anything that may be done to it."""
    return data.draw(st.sampled_from(possible(task)))(task, now, data)


def possible(task: Task) -> list[Step]:
    if task.phase in ARCHIVED:
        return [revived]
    if task.is_blocked:
        return [lowered, cascaded]
    always = [updated, ended]
    clock = [] if task.due_time is None or task.phase is Phase.PARKED else [timed_out] * 2
    match task.phase:
        case Phase.READY:
            return [*always, *clock, claimed, claimed, claimed]
        case Phase.HELD:
            return [*always, *clock, released, failed, failed]
        case _:
            return [*always, unparked]


def claimed(task: Task, now: datetime, data: st.DataObject) -> Task:
    claim = data.draw(claims(task.queue, task.current_state))
    assert transitions.is_claimable(task, claim)
    return transitions.claim(task, claim, now, timedelta(seconds=300))


def released(task: Task, now: datetime, data: st.DataObject) -> Task:
    return transitions.release(task, data.draw(st.none() | durations), now)


def unparked(task: Task, now: datetime, _data: st.DataObject) -> Task:
    return transitions.unpark(task, now)


def timed_out(task: Task, now: datetime, _data: st.DataObject) -> Task:
    return transitions.time_out(task, now)


def revived(task: Task, now: datetime, data: st.DataObject) -> Task:
    return transitions.revive(task, data.draw(st.integers(0, 3)) if task.job_id else 0, now)


def cascaded(task: Task, now: datetime, _data: st.DataObject) -> Task:
    return transitions.end(task, Phase.CANCELED, now, CanceledBy.PARENT)


def ended(task: Task, now: datetime, data: st.DataObject) -> Task:
    phase = data.draw(st.sampled_from(sorted(ARCHIVED)))
    return transitions.end(task, phase, now, CanceledBy.REQUEST if phase is Phase.CANCELED else None)


def failed(task: Task, now: datetime, data: st.DataObject) -> Task:
    failure = data.draw(failures)
    after = transitions.fail(task, failure, now)
    assert (after.attempt, after.lost, after.last_error) == (task.attempt + 1, task.lost, failure.error)
    assert (after.home_state, after.home_target) == (task.home_state, task.home_target)
    is_last = task.max_attempts is not None and after.attempt >= task.max_attempts
    assert (after.phase is Phase.FAILED) == (is_last or not failure.retryable)
    if after.phase is Phase.PARKED:
        assert after.current_state == f"{task.home_state}-retrying"
        assert after.due_time is not None
        assert ZERO < after.due_time - now <= max(task.backoff_max, failure.retry_in or ZERO)
    return after


def lowered(task: Task, now: datetime, data: st.DataObject) -> Task:
    number = data.draw(st.integers(1, task.waiting_on))
    after = transitions.lower(task, number, now)
    assert after.waiting_on == task.waiting_on - number
    if after.waiting_on:
        assert after.is_blocked
    elif task.start_at is not None and task.start_at > now:
        assert after.due_time == task.start_at
    elif task.start_delay:
        assert after.due_time == now + task.start_delay
    else:
        assert after.phase is Phase.READY
        assert after.timeout == task.timeout
    return after


def updated(task: Task, now: datetime, data: st.DataObject) -> Task:
    change = data.draw(changes)
    try:
        checks.check_change(task, change)
    except Invalid:
        assume(condition=False)
    after = transitions.update(task, change, now)
    if transitions.is_move(task, change):
        assert (after.phase, after.lost, after.home_state) == (Phase.READY, 0, change.new_state)
    else:
        assert (after.phase, after.held_by, after.claim_time) == (task.phase, task.held_by, task.claim_time)
        assert (after.current_state, after.home_state, after.lost) == (task.current_state, task.home_state, task.lost)
        if change.timeout is None or task.phase is Phase.PARKED:
            assert after.due_time == task.due_time
    assert after.priority == change.priority
    return after


@given(new_tasks(), st.data())
def test_a_claim_that_times_out_swaps_back(new: NewTask, data: st.DataObject) -> None:
    task = transitions.submit(new, ID, EPOCH)
    assume(task.phase is Phase.READY)
    claim = data.draw(claims(task.queue, task.current_state))
    held = transitions.claim(task, claim, EPOCH, timedelta(seconds=300))
    assert held.current_state == (claim.override_current_state or task.auto_target_state)
    assert held.auto_target_state == (claim.override_auto_target_state or task.current_state)
    assume(held.due_time is not None)
    back = transitions.time_out(held, EPOCH)
    if task.max_lost == 1:
        assert back.phase is Phase.FAILED
    else:
        assert (back.current_state, back.auto_target_state) == (held.auto_target_state, held.current_state)
        assert (back.home_state, back.home_target) == (held.auto_target_state, held.current_state)
        assert back.order == task.order


@given(new_tasks(), st.data())
def test_release_undoes_a_claim_whatever_it_overrode(new: NewTask, data: st.DataObject) -> None:
    task = transitions.submit(new, ID, EPOCH)
    assume(task.phase is Phase.READY)
    claim = data.draw(claims(task.queue, task.current_state))
    back = transitions.release(transitions.claim(task, claim, EPOCH, timedelta(seconds=300)), None, EPOCH)
    assert (back.current_state, back.auto_target_state) == (task.current_state, task.auto_target_state)
    assert (back.phase, back.timeout, back.lost, back.order) == (Phase.READY, None, 0, task.order)


@pytest.mark.parametrize("max_lost", [None, 1, 2, 3])
def test_max_lost_is_the_number_of_losses_that_ends_a_task(max_lost: int | None) -> None:
    task = ready(policy=RetryPolicy(max_lost=max_lost))
    for lost in range(1, max_lost or 10):
        task = transitions.time_out(held(task), EPOCH)
        assert (task.phase, task.lost) == (Phase.READY, lost)
    if max_lost:
        last = transitions.time_out(held(task), EPOCH)
        assert (last.phase, last.lost, last.delivery) == (Phase.FAILED, max_lost, max_lost)
