"""Design section 3: submit and claim, field by field."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from corndog.domain import checks, transitions
from corndog.domain.errors import Invalid
from corndog.domain.limits import NAME_MAX, STATE_MAX
from corndog.domain.task import Claim, Jitter, NewTask, Phase, RetryPolicy, Task
from tests.unit.samples import DEFAULT, HOUR, ID, SECOND, ZERO, blocked, differences, ended, held, ready, scheduled
from tests.unit.strategies import EPOCH, MICROSECOND

# submit ----------------------------------------------------------------------


def test_a_submit_without_anything_has_the_documented_defaults() -> None:
    assert transitions.submit(NewTask(), ID, EPOCH) == Task(
        id=ID,
        queue="default",
        kind=None,
        current_state="submitted",
        auto_target_state="submitted-working",
        phase=Phase.READY,
        home_state="submitted",
        home_target="submitted-working",
        priority=0,
        submit_time=EPOCH,
        update_time=EPOCH,
        timeout=None,
        work_timeout=None,
        due_time=None,
        delivery=0,
        held_by=None,
        claim_time=None,
        attempt=0,
        max_attempts=3,
        backoff=timedelta(seconds=5),
        backoff_max=timedelta(hours=1),
        backoff_multiplier=2.0,
        jitter=Jitter.FULL,
        lost=0,
        max_lost=None,
        job_id=None,
        name=None,
        waiting_on=0,
        last_error=None,
        metadata=None,
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"delay": ZERO}, {}),
        ({"run_at": EPOCH - MICROSECOND}, {}),
        ({"run_at": EPOCH}, {}),
        ({"timeout": ZERO}, {}),
        ({"work_timeout": ZERO}, {"work_timeout": ZERO}),
        ({"auto_target_state": "b"}, {"auto_target_state": "b", "home_target": "b"}),
        (
            {"auto_target_state": "b", "timeout": HOUR},
            {"auto_target_state": "b", "home_target": "b", "timeout": HOUR, "due_time": EPOCH + HOUR},
        ),
        (
            {"delay": MICROSECOND},
            {
                "phase": Phase.PARKED,
                "current_state": "a-scheduled",
                "auto_target_state": "a",
                "due_time": EPOCH + MICROSECOND,
            },
        ),
        (
            {"run_at": EPOCH + HOUR, "auto_target_state": "b", "timeout": SECOND},
            {
                "phase": Phase.PARKED,
                "current_state": "a-scheduled",
                "auto_target_state": "a",
                "home_target": "b",
                "timeout": SECOND,  # kept, and started by unparking
                "due_time": EPOCH + HOUR,
            },
        ),
        (
            {"policy": RetryPolicy(max_attempts=None, jitter=Jitter.NONE, max_lost=2)},
            {"max_attempts": None, "jitter": Jitter.NONE, "max_lost": 2},
        ),
    ],
)
def test_submit(asked: dict[str, object], expected: dict[str, object]) -> None:
    assert differences(ready(), ready(**asked)) == expected


def test_items_of_a_group_are_a_microsecond_apart() -> None:
    group = [transitions.submit(NewTask(), ID, EPOCH, place) for place in range(3)]
    assert [task.submit_time - EPOCH for task in group] == [ZERO, MICROSECOND, 2 * MICROSECOND]
    assert {task.update_time for task in group} == {EPOCH}


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"delay": HOUR, "run_at": EPOCH}, "run_at"),
        ({"delay": ZERO, "run_at": EPOCH}, "run_at"),
        ({"timeout": MICROSECOND}, "timeout"),
        ({"timeout": HOUR, "delay": HOUR}, "timeout"),
    ],
)
def test_submits_that_are_refused(asked: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        checks.check_new(NewTask(**asked), at="next_tasks[2].")  # type: ignore[arg-type]
    assert refusal.value.field == f"next_tasks[2].{field}"


def test_the_refusal_of_a_clock_names_what_was_probably_meant() -> None:
    with pytest.raises(Invalid, match=r"`submitted-working`.*work_timeout"):
        checks.check_new(NewTask(timeout=HOUR))


@pytest.mark.parametrize(
    "asked", [{"timeout": ZERO}, {"timeout": HOUR, "auto_target_state": "b"}, {"run_at": EPOCH}, {"delay": ZERO}]
)
def test_submits_that_are_not_refused(asked: dict[str, object]) -> None:
    checks.check_new(NewTask(**asked))  # type: ignore[arg-type]


def test_states_derived_from_the_longest_one_are_not_too_long() -> None:
    task = ready(current_state="s" * STATE_MAX, delay=HOUR)
    assert len(task.current_state) <= NAME_MAX
    assert len(task.home_target) <= NAME_MAX


# claim -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "override", "expected"),
    [
        ({}, {}, ("a-working", "a", DEFAULT)),
        ({"auto_target_state": "b"}, {}, ("b", "a", DEFAULT)),
        ({}, {"override_current_state": "x"}, ("x", "a", DEFAULT)),
        ({}, {"override_auto_target_state": "x"}, ("a-working", "x", DEFAULT)),
        ({}, {"override_current_state": "x", "override_auto_target_state": "y"}, ("x", "y", DEFAULT)),
        ({"work_timeout": HOUR}, {}, ("a-working", "a", HOUR)),
        ({"work_timeout": ZERO}, {}, ("a-working", "a", None)),
        ({"work_timeout": HOUR}, {"override_timeout": SECOND}, ("a-working", "a", SECOND)),
        ({"work_timeout": HOUR}, {"override_timeout": ZERO}, ("a-working", "a", None)),
        ({"work_timeout": ZERO}, {"override_timeout": SECOND}, ("a-working", "a", SECOND)),
        ({"auto_target_state": "b", "timeout": HOUR}, {}, ("b", "a", DEFAULT)),
        ({"auto_target_state": "b", "timeout": HOUR}, {"override_timeout": ZERO}, ("b", "a", None)),
    ],
)
def test_claim(asked: dict[str, object], override: dict[str, object], expected: tuple[str, str, timedelta]) -> None:
    before = ready(**asked)
    after = held(before, **override)
    state, target, timeout = expected
    changed = {
        "phase": Phase.HELD,
        "current_state": state,
        "auto_target_state": target,
        "timeout": timeout,
        "due_time": EPOCH + SECOND + timeout if timeout else None,
        "delivery": 1,
        "held_by": "w",
        "claim_time": EPOCH + SECOND,
    }
    assert differences(before, after) == {k: v for k, v in changed.items() if getattr(before, k) != v}
    assert after.update_time == EPOCH + SECOND


def test_a_default_of_zero_gives_no_clock() -> None:
    task = transitions.claim(ready(), Claim(queues=("q",), current_state="a"), EPOCH, ZERO)
    assert (task.timeout, task.due_time, task.held_by) == (None, None, "")


@pytest.mark.parametrize(
    ("task", "claim", "is_claimable"),
    [
        (ready(), {}, True),
        (ready(), {"queues": ("p", "q")}, True),
        (ready(), {"queues": ("p",)}, False),
        (ready(), {"current_state": "b"}, False),
        (held(), {}, False),
        (held(), {"current_state": "a-working"}, False),
        (held(override_current_state="a"), {}, False),
        (scheduled(), {}, False),
        (scheduled(), {"current_state": "a-scheduled"}, False),
        (blocked(), {"current_state": "a-blocked"}, False),
        (ended(), {"current_state": "completed"}, False),
        (ready(current_state="a-working"), {"current_state": "a-working"}, True),
    ],
)
def test_what_may_be_claimed(task: Task, claim: dict[str, Any], is_claimable: bool) -> None:
    asked = Claim(**{"queues": ("q",), "current_state": "a", **claim})
    assert transitions.is_claimable(task, asked) is is_claimable


def test_order_is_priority_then_age_then_id() -> None:
    first, second = EPOCH, EPOCH + MICROSECOND
    low, high = (type(ID)(int=number) for number in (1, 2))
    expected = [(2, second, high), (0, first, low), (0, first, high), (0, second, low), (-1, first, low)]
    tasks = [
        msgspec.structs.replace(ready(), priority=priority, submit_time=time, id=task_id)
        for priority, time, task_id in expected
    ]
    shuffled = [tasks[place] for place in (3, 0, 4, 2, 1)]
    assert sorted(shuffled, key=lambda task: task.order) == tasks
