"""Answers about all tasks of a queue."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

import msgspec


class CleanedUp(msgspec.Struct):
    """How many clocks were ended."""

    timed_out: int


class Queues(msgspec.Struct):
    """The queues that have live tasks."""

    queues: list[str]
    total_task_count: int


class QueueCounts(msgspec.Struct):
    """How many live tasks each queue has."""

    queue_counts: dict[str, int]
    total_task_count: int


class StateCounts(msgspec.Struct):
    """How many live tasks a queue has in each state."""

    queue: str
    count: int
    state_counts: dict[str, int]


class QueueAndStateCounts(msgspec.Struct):
    """How many live tasks each queue has in each state."""

    queue_and_state_counts: dict[str, StateCounts]


def state_counts(queue: str, counts: Iterable[tuple[str, str, int]]) -> StateCounts:
    """Sum up the counts of one queue."""
    states = {state: count for _, state, count in counts}
    return StateCounts(queue=queue, count=sum(states.values()), state_counts=states)


def by_queue(counts: Sequence[tuple[str, str, int]]) -> dict[str, StateCounts]:
    """Sum up the counts of every queue; they come sorted by queue."""
    groups = groupby(counts, key=itemgetter(0))
    return {queue: state_counts(queue, group) for queue, group in groups}
