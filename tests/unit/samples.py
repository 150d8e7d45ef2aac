"""Tasks in each phase, made by the rules themselves, for tables of cases."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from corndog.domain import transitions
from corndog.domain.task import Claim, NewTask, Outcome, Phase, Task
from tests.unit.strategies import EPOCH

ID = UUID(int=7)
SECOND = timedelta(seconds=1)
DEFAULT = timedelta(seconds=300)
LATER = EPOCH + 10 * SECOND
HOUR = timedelta(hours=1)
ZERO = timedelta(0)

TIMED = {"auto_target_state": "b", "timeout": HOUR}
"""A clock for a submit."""

FREED = {"phase": Phase.READY, "held_by": None, "claim_time": None, "timeout": None, "due_time": None}
"""What the end of a hold changes."""


def ready(**asked: object) -> Task:
    return transitions.submit(NewTask(**{"queue": "q", "current_state": "a", **asked}), ID, EPOCH)  # type: ignore[arg-type]


def held(task: Task | None = None, **asked: object) -> Task:
    task = task or ready()
    claim = Claim(**{"queues": (task.queue,), "current_state": task.current_state, "worker_id": "w", **asked})  # type: ignore[arg-type]
    return transitions.claim(task, claim, EPOCH + SECOND, DEFAULT)


def scheduled(**asked: object) -> Task:
    return ready(**{"delay": timedelta(hours=1), **asked})


def blocked(**asked: object) -> Task:
    """Make a task that waits for others, as a job will."""
    return msgspec.structs.replace(
        ready(**asked),
        phase=Phase.PARKED,
        current_state="a-blocked",
        auto_target_state="a",
        waiting_on=1,
        due_time=None,
    )


def ended(phase: Phase = Phase.COMPLETED, task: Task | None = None) -> Task:
    return transitions.end(task or ready(), phase, LATER)


class Past(msgspec.Struct, kw_only=True):
    """What is known of a task's past."""

    task: Task
    end_request: bytes | None = None
    run_outcome: Outcome | None = None
    run_request: bytes | None = None


def differences(before: Task, after: Task) -> dict[str, Any]:
    """Give the fields that a transition has changed, with their new values."""
    return {
        name: getattr(after, name)
        for name in Task.__struct_fields__
        if getattr(before, name) != getattr(after, name) and name != "update_time"
    }
