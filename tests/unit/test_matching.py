"""Design section 3, "Match": who may write a task, and what a refused caller is told."""

from typing import Any

import msgspec
import pytest

from corndog.domain import checks
from corndog.domain.errors import Code, Conflict, Invalid
from corndog.domain.task import Match, Phase, Task
from tests.unit.samples import blocked, ended, held, ready, scheduled

SECOND_HOLD = msgspec.structs.replace(held(), delivery=2)


@pytest.mark.parametrize(
    ("task", "match"),
    [
        (ready(), {"current_state": "a"}),
        (ready(), {"current_state": "a", "queue": "q"}),
        (held(), {"delivery": 1}),
        (held(), {"delivery": 1, "queue": "q", "current_state": "a-working"}),
        (SECOND_HOLD, {"delivery": 2}),
        (scheduled(), {"current_state": "a-scheduled"}),
    ],
)
def test_what_may_be_written(task: Task, match: dict[str, Any]) -> None:
    checks.check_match(task, Match(**match), parked_too=True)


@pytest.mark.parametrize(
    ("task", "match", "code", "told"),
    [
        (ready(), {"current_state": "b"}, Code.STATE_MISMATCH, "'a'"),
        (ready(), {"current_state": "a", "queue": "p"}, Code.QUEUE_MISMATCH, "'q'"),
        (ready(), {"delivery": 1}, Code.STALE_DELIVERY, "delivery 1"),
        (ready(), {"delivery": 1, "current_state": "a"}, Code.STALE_DELIVERY, "delivery 1"),
        # A held task is written with its delivery, whatever else the caller knows or thinks it knows.
        (held(), {"current_state": "a-working"}, Code.HELD, "delivery 1"),
        (held(), {"current_state": "a"}, Code.HELD, "delivery 1"),
        (held(), {"current_state": "a", "queue": "p"}, Code.HELD, "delivery 1"),
        (held(), {"delivery": 2}, Code.STALE_DELIVERY, "delivery 2"),
        (SECOND_HOLD, {"delivery": 1}, Code.STALE_DELIVERY, "delivery 1"),
        (held(), {"delivery": 1, "current_state": "a"}, Code.STATE_MISMATCH, "'a-working'"),
        (held(), {"delivery": 1, "queue": "p"}, Code.QUEUE_MISMATCH, "'q'"),
        (scheduled(), {"current_state": "a"}, Code.STATE_MISMATCH, "'a-scheduled'"),
        (scheduled(), {"delivery": 1}, Code.STALE_DELIVERY, "delivery 1"),
        (blocked(), {"current_state": "a-blocked"}, Code.BLOCKED, "canceled"),
        (blocked(), {"delivery": 1}, Code.STALE_DELIVERY, "delivery 1"),
        (ended(), {"current_state": "completed"}, Code.ENDED, "completed"),
        (ended(Phase.CANCELED, held()), {"delivery": 1}, Code.ENDED, "canceled"),
        (ended(Phase.FAILED), {"current_state": "a"}, Code.ENDED, "failed"),
    ],
)
def test_what_may_not_be_written(task: Task, match: dict[str, Any], code: Code, told: str) -> None:
    for parked_too in (True, False):
        with pytest.raises(Conflict) as refusal:
            checks.check_match(task, Match(**match), parked_too=parked_too)
        assert refusal.value.code is code
        assert told in str(refusal.value)
        assert refusal.value.task is task


def test_a_parked_task_is_not_released() -> None:
    with pytest.raises(Conflict) as refusal:
        checks.check_match(scheduled(), Match(current_state="a-scheduled"), parked_too=False)
    assert refusal.value.code is Code.STATE_MISMATCH


@pytest.mark.parametrize(
    ("task", "match", "code"),
    [
        (ready(), {}, None),
        (held(), {}, None),
        (held(), {"current_state": "a-working"}, None),
        (held(), {"delivery": 1}, None),
        (held(), {"delivery": 2}, Code.STALE_DELIVERY),
        (held(), {"current_state": "a"}, Code.STATE_MISMATCH),
        (ready(), {"queue": "p"}, Code.QUEUE_MISMATCH),
        (ready(), {"delivery": 1}, Code.STALE_DELIVERY),
        (blocked(), {"current_state": "a-blocked"}, None),
        (scheduled(), {"queue": "q"}, None),
    ],
)
def test_the_match_of_a_cancel(task: Task, match: dict[str, Any], code: Code | None) -> None:
    if code is None:
        checks.check_fields(task, Match(**match))
    else:
        with pytest.raises(Conflict) as refusal:
            checks.check_fields(task, Match(**match))
        assert refusal.value.code is code


def test_a_write_says_what_it_writes() -> None:
    checks.check_given(Match(delivery=1))
    checks.check_given(Match(current_state="a"))
    for match in (Match(), Match(queue="q")):
        with pytest.raises(Invalid) as refusal:
            checks.check_given(match)
        assert refusal.value.field == "current_state"
