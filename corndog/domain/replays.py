"""What a repeated request is told.

Answers get lost, so clients repeat what they sent. The end of a delivery (and of a task) keeps the hash of the
request that brought it about: the same request again is answered with the same outcome and writes nothing.
"""

from datetime import datetime
from typing import Protocol

from corndog.domain.errors import Code, Conflict
from corndog.domain.task import ARCHIVED, Outcome, Phase, Task

_ANSWERABLE = {Outcome.RELEASED, Outcome.MOVED, Outcome.FAILED}


class History(Protocol):
    """What is known of a task's last end and of one delivery's."""

    @property
    def task(self) -> Task:
        """The task as it is now."""

    @property
    def end_request(self) -> bytes | None:
        """The hash of the request that ended the task."""

    @property
    def run_outcome(self) -> Outcome | None:
        """How the delivery in question ended, if the task lived on."""

    @property
    def run_request(self) -> bytes | None:
        """The hash of the request that ended that delivery."""


def is_replay(history: History, delivery: int | None, request: bytes) -> bool:
    """Whether this request has already done what it asks for.

    Raises:
        Conflict: another request has ended this delivery, or this unheld task.

    """
    if history.run_outcome in _ANSWERABLE:
        return _same(history.run_request, request, history.task)
    if history.end_request is not None and _ended_delivery(history.task.claim_time, history.task, delivery):
        return _same(history.end_request, request, history.task)
    return False


def is_cancel_replay(task: Task) -> bool:
    """Whether a cancel finds the task canceled already.

    Raises:
        Conflict: the task has ended otherwise.

    """
    if task.phase in ARCHIVED and task.phase is not Phase.CANCELED:
        raise Conflict(Code.ENDED, f"the task has already ended: it is {task.phase}", task)
    return task.phase is Phase.CANCELED


def is_revive_replay(task: Task) -> bool:
    """Whether a revive finds the task live already.

    Raises:
        Conflict: the task is completed, which is final.

    """
    if task.phase is Phase.COMPLETED:
        raise Conflict(Code.ENDED, "the task is completed: only failed and canceled ones can be revived", task)
    return task.phase not in ARCHIVED


def _ended_delivery(claim_time: datetime | None, task: Task, delivery: int | None) -> bool:
    return delivery == (None if claim_time is None else task.delivery)


def _same(kept: bytes | None, request: bytes, task: Task) -> bool:
    if kept != request:
        raise Conflict(Code.OTHER_REQUEST, "this has been answered before, to another request", task)
    return True
