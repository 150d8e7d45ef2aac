"""The rules of jobs: which graphs of tasks make one, and what a job's tasks say about it.

A task waits for the tasks that it depends on: its parents. When one ends as failed or canceled, the tasks that wait for
it are canceled, and what waits for those; except that a task may choose to run all the same.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from uuid import UUID

import msgspec

from corndog.domain.checks import check_new
from corndog.domain.errors import Code, Fault, Invalid
from corndog.domain.listing import EARLIEST, LATEST
from corndog.domain.task import ARCHIVED, NewTask, Phase, Task

JOB_TASKS_MAX = 10_000
"""Most tasks of a job."""

JOB_DEPENDENCIES_MAX = 100_000
"""Most dependencies between the tasks of a job."""

_PATH_MAX = 20
"""How many tasks of a cycle are named."""

_FAULTS_MAX = 100
"""How many faults of a job are told at once."""


class OnParentFailure(StrEnum):
    """What becomes of a task if one that it depends on ends as failed or canceled."""

    CANCEL = "cancel"
    RUN = "run"


class JobStatus(StrEnum):
    """What a job's tasks say about it: nothing claimed yet, some of them live, or all ended and how."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


FINAL = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED})


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the database has it. `metadata` is the text of a JSON object."""

    id: UUID
    name: str | None
    status: JobStatus
    submit_time: datetime
    update_time: datetime
    end_time: datetime | None
    task_count: int
    metadata: str | None


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a listing shows; None shows all. Times bound `submit_time`, the later one exclusively."""

    status: JobStatus | None = None
    name: str | None = None
    submitted_after: datetime = EARLIEST
    submitted_before: datetime = LATEST


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a new job: its name there, what it is, and the names of the tasks that it depends on."""

    name: str
    new: NewTask
    depends_on: Sequence[str] = ()
    on_parent_failure: OnParentFailure = OnParentFailure.CANCEL


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a submitter asks for."""

    members: Sequence[Member]
    name: str | None = None
    metadata: str | None = None


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A dependency. It is `done` when it holds the child up no longer."""

    child_id: UUID
    parent_id: UUID
    done: bool
    run_on_failure: bool


def in_order(job: NewJob) -> list[Member]:
    """Give the tasks of a new job, parents before their children.

    Raises:
        Invalid: the job breaks rules; all of them are told.

    """
    if faults := faults_of(job.members):
        raise invalid_job(faults)
    return _sorted(job.members)


def faults_of(members: Sequence[Member]) -> list[Fault]:
    """Tell all that is wrong with the tasks of a new job."""
    faults = list(_faults(members))
    if len(members) > JOB_TASKS_MAX or _dependencies(members) > JOB_DEPENDENCIES_MAX:
        return faults
    try:
        _sorter(members).prepare()
    except CycleError as error:
        path = [repr(name) for name in reversed(error.args[1])]
        if len(path) > _PATH_MAX:
            path[_PATH_MAX // 2 : -_PATH_MAX // 2] = [f"({len(path) - _PATH_MAX} more)"]
        faults.append(Fault("tasks", f"the dependencies form a cycle, each depending on the next: {' → '.join(path)}"))
    return faults


def invalid_job(faults: Sequence[Fault]) -> Invalid:
    """Refuse a job for these faults."""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return Invalid(
        f"{faults[0].detail}{more}", field=faults[0].field, code=Code.INVALID_JOB, faults=faults[:_FAULTS_MAX]
    )


def _sorted(members: Sequence[Member]) -> list[Member]:
    """Of the tasks whose parents are all out, the one that was given first comes next."""
    places = {member.name: place for place, member in enumerate(members)}
    sorter = _sorter(members)
    sorter.prepare()
    free: list[int] = []
    order: list[Member] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(free, places[name])
        order.append(members[heappop(free)])
        sorter.done(order[-1].name)
    return order


def _sorter(members: Sequence[Member]) -> TopologicalSorter[str]:
    """Sort by the dependencies that there are: each on another task, which is the first of its name."""
    first = {member.name: member for member in reversed(members)}
    return TopologicalSorter(
        {
            name: [parent for parent in member.depends_on if parent in first and parent != name]
            for name, member in first.items()
        }
    )


def _dependencies(members: Sequence[Member]) -> int:
    return sum(len(member.depends_on) for member in members)


def _faults(members: Sequence[Member]) -> Iterator[Fault]:
    if not members:
        yield Fault("tasks", "a job has at least one task")
    if len(members) > JOB_TASKS_MAX:
        yield Fault("tasks", f"{len(members)} are too many: at most {JOB_TASKS_MAX} are allowed")
        return
    if (edges := _dependencies(members)) > JOB_DEPENDENCIES_MAX:
        yield Fault("tasks", f"{edges} dependencies are too many: at most {JOB_DEPENDENCIES_MAX} are allowed")
        return
    known = {member.name for member in members}
    seen: set[str] = set()
    told = 0
    for place, member in enumerate(members):
        for fault in _faults_of(member, f"tasks[{place}]", known, seen):
            yield fault
            told += 1
            if told == _FAULTS_MAX:
                return
        seen.add(member.name)


def _faults_of(member: Member, at: str, known: Collection[str], seen: Collection[str]) -> Iterator[Fault]:
    if member.name in seen:
        yield Fault(f"{at}.name", f"the name {member.name!r} is given more than once")
    named: set[str] = set()
    for place, name in enumerate(member.depends_on):
        field = f"{at}.depends_on[{place}]"
        if name == member.name:
            yield Fault(field, f"{name!r} depends on itself")
        elif name not in known:
            yield Fault(field, f"there is no task {name!r} in this job")
        elif name in named:
            yield Fault(field, f"the dependency on {name!r} is given more than once")
        named.add(name)
    try:
        check_new(member.new, f"{at}.")
    except Invalid as error:
        yield Fault(error.field or at, str(error))


def status_of(tasks: Iterable[Task]) -> JobStatus:
    """Tell a job's status by its tasks."""
    tasks = list(tasks)
    phases = {task.phase for task in tasks}
    if phases <= ARCHIVED:
        return next(
            (status for status in (JobStatus.FAILED, JobStatus.CANCELED) if Phase(status) in phases),
            JobStatus.COMPLETED,
        )
    has_begun = any(task.delivery or task.phase in {Phase.COMPLETED, Phase.FAILED} for task in tasks)
    return JobStatus.RUNNING if has_begun else JobStatus.PENDING
