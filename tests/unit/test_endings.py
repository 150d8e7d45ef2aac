"""Design section 3: release, time out, unpark and the end, field by field."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corndog.domain import transitions
from corndog.domain.task import Outcome, Phase, RetryPolicy, Run, Task
from tests.unit.samples import (
    DEFAULT,
    FREED,
    HOUR,
    ID,
    LATER,
    SECOND,
    TIMED,
    ZERO,
    blocked,
    differences,
    ended,
    held,
    ready,
    scheduled,
)
from tests.unit.strategies import EPOCH, MICROSECOND


@pytest.mark.parametrize("delay", [None, ZERO])
def test_release_leads_home(delay: timedelta | None) -> None:
    before = held(ready(**TIMED, priority=4), override_current_state="x", override_auto_target_state="y")
    after = transitions.release(before, delay, LATER)
    assert differences(before, after) == FREED | {"current_state": "a", "auto_target_state": "b"}
    assert (after.attempt, after.delivery, after.priority) == (0, 1, 4)


def test_release_with_a_delay_parks_at_home() -> None:
    after = transitions.release(held(), MICROSECOND, LATER)
    assert differences(held(), after) == FREED | {
        "phase": Phase.PARKED,
        "current_state": "a-scheduled",
        "due_time": LATER + MICROSECOND,
    }
    assert after.auto_target_state == "a"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (
            ready(**TIMED),
            {"current_state": "b", "auto_target_state": "a", "home_state": "b", "home_target": "a"}
            | {"timeout": None, "due_time": None},
        ),
        (held(), FREED | {"current_state": "a", "auto_target_state": "a-working", "lost": 1}),
        (
            held(override_current_state="x", override_auto_target_state="y"),
            FREED | {"current_state": "y", "auto_target_state": "x", "home_state": "y", "home_target": "x", "lost": 1},
        ),
        (
            held(ready(policy=RetryPolicy(max_lost=2))),
            FREED | {"current_state": "a", "auto_target_state": "a-working", "lost": 1},
        ),
        (
            held(ready(policy=RetryPolicy(max_lost=1))),
            {"phase": Phase.FAILED, "current_state": "failed", "auto_target_state": "failed", "lost": 1}
            | {"timeout": None, "due_time": None},
        ),
        # Only holds are lost: a ready task's clock may end as often as it likes.
        (
            ready(**TIMED, policy=RetryPolicy(max_lost=1)),
            {"current_state": "b", "auto_target_state": "a", "home_state": "b", "home_target": "a"}
            | {"timeout": None, "due_time": None},
        ),
    ],
)
def test_time_out(before: Task, expected: dict[str, Any]) -> None:
    after = transitions.time_out(before, LATER)
    assert differences(before, after) == expected
    assert (after.submit_time, after.update_time) == (before.submit_time, LATER)  # it keeps its place


DUE = EPOCH + SECOND + DEFAULT


@pytest.mark.parametrize(
    ("task", "at_time", "began", "queue", "is_timed_out"),
    [
        (held(), DUE, LATER, None, True),
        (held(), DUE - MICROSECOND, LATER, None, False),
        (held(), DUE, LATER, "q", True),
        (held(), DUE, LATER, "p", False),
        (held(), DUE, EPOCH + SECOND, None, True),
        (held(), DUE, EPOCH + SECOND - MICROSECOND, None, False),  # claimed since the cleanup began
        (held(override_timeout=ZERO), datetime(9999, 1, 1, tzinfo=UTC), LATER, None, False),
        (ready(), datetime(9999, 1, 1, tzinfo=UTC), LATER, None, False),
        (ready(**TIMED), EPOCH + HOUR, EPOCH, None, True),
        (scheduled(), EPOCH + 2 * HOUR, LATER, None, False),
        (ended(task=held()), datetime(9999, 1, 1, tzinfo=UTC), LATER, None, False),
    ],
)
def test_what_a_sweep_ends(
    task: Task, at_time: datetime, began: datetime, queue: str | None, is_timed_out: bool
) -> None:
    assert transitions.is_timed_out(task, at_time, began, queue) is is_timed_out


def test_a_timeout_undoes_a_claim() -> None:
    before = ready()
    after = transitions.time_out(held(before), LATER)
    assert differences(before, after) == {"delivery": 1, "lost": 1}


@pytest.mark.parametrize("timeout", [None, SECOND])
def test_unparking_leads_home_and_starts_the_clock(timeout: timedelta | None) -> None:
    before = scheduled(auto_target_state="b", timeout=timeout)
    now = EPOCH + HOUR
    assert transitions.is_unparkable(before, now)
    assert not transitions.is_unparkable(before, now - MICROSECOND)
    assert differences(before, transitions.unpark(before, now)) == {
        "phase": Phase.READY,
        "current_state": "a",
        "auto_target_state": "b",
        "due_time": now + timeout if timeout else None,
    }


@pytest.mark.parametrize("task", [blocked(), ready(**TIMED), held(), ended()])
def test_what_is_never_unparked(task: Task) -> None:
    assert not transitions.is_unparkable(task, datetime(9999, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.FAILED, Phase.CANCELED])
@pytest.mark.parametrize("before", [ready(**TIMED), held(), scheduled(), blocked()])
def test_the_end_keeps_home_and_holder(before: Task, phase: Phase) -> None:
    after = transitions.end(before, phase, LATER)
    changed = {"phase": phase, "current_state": phase.value, "auto_target_state": phase.value}
    clock = {name: None for name in ("timeout", "due_time") if getattr(before, name) is not None}
    assert differences(before, after) == changed | clock


def test_the_run_of_a_hold() -> None:
    assert transitions.ended_run(held(), Outcome.MOVED, LATER, b"r") == Run(
        task_id=ID,
        delivery=1,
        worker_id="w",
        claim_time=EPOCH + SECOND,
        end_time=LATER,
        outcome=Outcome.MOVED,
        request=b"r",
    )
    for task in (ready(), scheduled(), blocked(), ended(task=held())):
        assert transitions.ended_run(task, Outcome.MOVED, LATER, None) is None
