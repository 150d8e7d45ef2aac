"""The rules of revival within a job: which tasks live again, and what they wait for then."""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

import msgspec

from corndog.domain.jobs import Edge
from corndog.domain.task import ARCHIVED, CanceledBy, Phase, Task


class Revival(msgspec.Struct, frozen=True, kw_only=True):
    """What a revival does: the tasks that live again, each with how many others it waits for, and what else changes.

    `more` is how many more tasks live ones wait for from now on; `edges` are the dependencies that change, as they
    are afterwards.
    """

    waiting_on: Mapping[UUID, int]
    more: Mapping[UUID, int]
    edges: Sequence[Edge]


def is_ended_by_job(task: Task) -> bool:
    """Whether the revival of its job is about this task: it failed, or was canceled by others' ends or the job's."""
    return task.phase is Phase.FAILED or task.canceled_by in {CanceledBy.PARENT, CanceledBy.JOB}


def revival(tasks: Mapping[UUID, Task], edges: Sequence[Edge], wanted: Iterable[UUID]) -> Revival:
    """Tell what the revival of some ended tasks of a job does.

    With each come the tasks that its end has canceled; but no task that another failed or canceled parent still stops.
    """
    revived = _revived(tasks, edges, set(wanted))
    waiting_on = dict.fromkeys(sorted(revived), 0)
    more: Counter[UUID] = Counter()
    changed: list[Edge] = []
    for edge in edges:
        child, parent = tasks[edge.child_id], tasks[edge.parent_id]
        if child.id not in revived and not child.is_blocked:
            continue
        # Only a task that runs all the same can be revived under one that has ended otherwise than completed. One
        # that lives again is waited for, whatever came of it before.
        done = parent.id not in revived and parent.phase in ARCHIVED
        if child.id in revived:
            waiting_on[child.id] += not done
        elif edge.done and not done:
            more[child.id] += 1
        else:
            continue
        if done != edge.done:
            changed.append(msgspec.structs.replace(edge, done=done))
    return Revival(waiting_on=waiting_on, more=more, edges=changed)


def _revived(tasks: Mapping[UUID, Task], edges: Sequence[Edge], wanted: Collection[UUID]) -> set[UUID]:
    children: defaultdict[UUID, list[UUID]] = defaultdict(list)
    for edge in edges:
        if not edge.run_on_failure:
            children[edge.parent_id].append(edge.child_id)

    def stopped_by(starts: Iterable[UUID], among: Collection[UUID]) -> set[UUID]:
        """Give those that the end of the starts stops, directly or through each other."""
        found: set[UUID] = set()
        waiting = deque(starts)
        while waiting:
            new = {child for child in children[waiting.popleft()] if child in among} - found
            found |= new
            waiting += new
        return found

    canceled = {task.id for task in tasks.values() if task.canceled_by is CanceledBy.PARENT}
    candidates = stopped_by(wanted, canceled) | set(wanted)
    ended = {task.id for task in tasks.values() if task.phase in {Phase.FAILED, Phase.CANCELED}}
    return candidates - stopped_by(ended - candidates, candidates)
