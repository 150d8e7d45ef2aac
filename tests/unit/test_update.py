"""Design section 3: update, field by field."""

from typing import Any

import msgspec
import pytest

from corndog.domain import checks, transitions
from corndog.domain.errors import Invalid
from corndog.domain.task import Change, Phase, Task
from tests.unit.samples import FREED, HOUR, LATER, SECOND, TIMED, ZERO, differences, held, ready, scheduled

MOVED = {"current_state": "n", "auto_target_state": "n-working", "home_state": "n", "home_target": "n-working"}


@pytest.mark.parametrize(
    ("before", "change", "expected"),
    [
        # Moves: a new state ends the hold or the parking, and is home.
        (ready(), {"new_state": "n"}, MOVED),
        (ready(**TIMED), {"new_state": "n"}, MOVED | {"timeout": None, "due_time": None}),
        (ready(priority=5), {"new_state": "n"}, MOVED | {"priority": 0}),
        (ready(), {"new_state": "n", "priority": -3}, MOVED | {"priority": -3}),
        (ready(), {"new_state": "n", "auto_target_state": "t"}, MOVED | {"auto_target_state": "t", "home_target": "t"}),
        (
            ready(),
            {"new_state": "n", "auto_target_state": "t", "timeout": SECOND},
            MOVED
            | {"auto_target_state": "t", "home_target": "t", "timeout": SECOND, "due_time": LATER + SECOND},
        ),
        (held(), {"new_state": "n"}, MOVED | FREED),
        (held(), {"new_state": "a"}, {"current_state": "a", "auto_target_state": "a-working"} | FREED),
        (msgspec.structs.replace(held(), lost=2), {"new_state": "n"}, MOVED | FREED | {"lost": 0}),
        (scheduled(), {"new_state": "n"}, MOVED | {"phase": Phase.READY, "due_time": None}),
        (
            scheduled(),
            {"new_state": "a"},
            {"phase": Phase.READY, "current_state": "a", "auto_target_state": "a-working", "due_time": None},
        ),
        (
            scheduled(**TIMED),
            {"new_state": "n"},
            MOVED | {"phase": Phase.READY, "timeout": None, "due_time": None},
        ),
        # Progress: the same state or none given.
        (ready(), {}, {}),
        (ready(), {"new_state": "a"}, {}),
        (ready(priority=5), {}, {"priority": 0}),
        (ready(), {"auto_target_state": "t"}, {"auto_target_state": "t", "home_target": "t"}),
        (ready(**TIMED), {}, {}),
        (ready(**TIMED), {"timeout": ZERO}, {"timeout": None, "due_time": None}),
        (ready(**TIMED), {"timeout": SECOND}, {"timeout": SECOND, "due_time": LATER + SECOND}),
        (ready(), {"timeout": SECOND}, {"timeout": SECOND, "due_time": LATER + SECOND}),
        (held(), {}, {}),
        (held(), {"new_state": "a-working", "timeout": HOUR}, {"timeout": HOUR, "due_time": LATER + HOUR}),
        (held(), {"timeout": ZERO}, {"timeout": None, "due_time": None}),
        (held(), {"auto_target_state": "t"}, {"auto_target_state": "t"}),  # where a timeout leads; home stays
        (held(override_current_state="x"), {"new_state": "x", "priority": 9}, {"priority": 9}),
        (msgspec.structs.replace(held(), lost=2), {}, {}),
        (scheduled(), {}, {}),
        (scheduled(), {"new_state": "a-scheduled", "priority": 1}, {"priority": 1}),
        (scheduled(), {"timeout": SECOND}, {"timeout": SECOND}),  # due_time is the release time, and stays
        (scheduled(**TIMED), {"timeout": ZERO}, {"timeout": None}),
        (scheduled(), {"auto_target_state": "t"}, {"home_target": "t"}),
    ],
)  # fmt: skip
def test_update(before: Task, change: dict[str, Any], expected: dict[str, Any]) -> None:
    after = transitions.update(before, Change(**change), LATER)
    assert differences(before, after) == expected
    assert after.update_time == LATER


@pytest.mark.parametrize(
    ("task", "change", "is_refused"),
    [
        (ready(), {"new_state": "n", "timeout": SECOND}, True),
        (held(), {"new_state": "a", "timeout": SECOND}, True),
        (scheduled(), {"new_state": "a", "timeout": SECOND}, True),
        (ready(), {"new_state": "n", "timeout": ZERO}, False),
        (ready(), {"new_state": "n", "timeout": SECOND, "auto_target_state": "t"}, False),
        (ready(), {"new_state": "a", "timeout": SECOND}, False),
        (held(), {"timeout": SECOND}, False),
        (scheduled(), {"timeout": SECOND}, False),
    ],
)
def test_a_move_with_a_clock_needs_a_target(task: Task, change: dict[str, Any], is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(Invalid, match="work_timeout") as refusal:
            checks.check_change(task, Change(**change))
        assert refusal.value.field == "timeout"
    else:
        checks.check_change(task, Change(**change))
