"""How long a failed task waits before it is tried again.

Exponential backoff with a cap, and with "full jitter": evenly spread from zero to the whole backoff, so that tasks that
failed together don't come back together.
"""

import math
from datetime import timedelta

from corndog.domain.task import Failure, Jitter, Task

_MICROSECONDS = 1_000_000
_EXPONENT_MAX = 600.0
"""The power of e from which on any backoff but zero is over any cap: powers beyond it could overflow."""


def is_spent(task: Task) -> bool:
    """Whether one more failure uses the budget up."""
    return task.max_attempts is not None and task.attempt + 1 >= task.max_attempts


def pause(task: Task, failure: Failure) -> timedelta:
    """Tell how long the task waits after this failure, which is not its last."""
    if failure.retry_in is not None:
        return failure.retry_in
    seconds = backoff(task) * (failure.chance if task.jitter is Jitter.FULL else 1.0)
    return timedelta(microseconds=math.floor(seconds * _MICROSECONDS))


def backoff(task: Task) -> float:
    """Give the backoff in seconds after the failures so far, before any jitter."""
    first, cap = task.backoff.total_seconds(), task.backoff_max.total_seconds()
    if not first:
        return 0.0
    if task.attempt * math.log(task.backoff_multiplier) > _EXPONENT_MAX:
        return cap
    return min(cap, first * math.pow(task.backoff_multiplier, task.attempt))
