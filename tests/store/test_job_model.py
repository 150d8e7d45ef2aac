"""One state machine drives the pure rules of jobs and the real store with the same commands, over random graphs.

What each command should do to the other tasks of a job is said here once more, step by step and without any sets.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from msgspec import structs

from corndog.domain import transitions
from corndog.domain.errors import Code, Conflict
from corndog.domain.jobs import Edge, JobStatus, Member, NewJob, OnParentFailure, status_of
from corndog.domain.listing import Filter, Include, Place
from corndog.domain.revival import is_ended_by_job, revival
from corndog.domain.task import (
    ARCHIVED,
    CanceledBy,
    Claim,
    Failure,
    Match,
    Membership,
    NewTask,
    Phase,
    RetryPolicy,
    Task,
)
from corndog.service.writes import Written
from corndog.store.engine import Database, Isolation
from tests.store.commands import FUTURE
from tests.store.counting import Counting
from tests.store.house import DEFAULT_TIMEOUT, HOUR, MICROSECOND, House

_T = TypeVar("_T")

Step = Callable[[Task, datetime], Task]
"""What happens to a task, at the time that the database did it."""

news = st.builds(
    NewTask,
    queue=st.just("q"),
    priority=st.integers(0, 1),
    delay=st.sampled_from([None, None, None, timedelta(0), MICROSECOND, HOUR]),
    policy=st.builds(
        RetryPolicy,
        max_attempts=st.sampled_from([1, 1, 2]),
        backoff=st.sampled_from([timedelta(0), MICROSECOND]),
        max_lost=st.sampled_from([None, 1, 1]),
    ),
)


def some_of(names: Sequence[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), unique=True, max_size=3).map(sorted) if names else st.just([])


@st.composite
def graphs(draw: st.DrawFn) -> NewJob:
    """Draw a graph, in an order in which parents need not come before their children."""
    number = draw(st.integers(1, 6))
    members = [
        Member(
            name=f"t{place}",
            new=draw(news),
            depends_on=draw(
                st.lists(st.sampled_from([f"t{parent}" for parent in range(place)]), unique=True, max_size=3)
            )
            if place
            else [],
            on_parent_failure=draw(st.sampled_from(OnParentFailure)),
        )
        for place in range(number)
    ]
    return NewJob(members=draw(st.permutations(members)))


class Machine(Counting):
    """Any commands, in any order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, house: House) -> None:
        super().__init__(loop, house)
        self.tasks: dict[UUID, Task] = {}
        self.edges: dict[tuple[UUID, UUID], Edge] = {}

    def answer(self, work: Awaitable[_T]) -> _T | Conflict:
        async def ask() -> _T | Conflict:
            try:
                return await work
            except Conflict as refusal:
                return refusal

        return self.run(ask())

    def stored(self, task_id: UUID) -> Task:
        return self.run(self.house.reading.get(task_id, Include())).task

    def apply(self, steps: Iterable[tuple[UUID, Step]]) -> None:
        """Do to the model what should have happened, and demand that everything is as it should be now."""
        for task_id, step in steps:
            self.tasks[task_id] = step(self.tasks[task_id], self.stored(task_id).update_time)
        for task_id, task in self.tasks.items():
            assert self.stored(task_id) == task

    def pick(self, data: st.DataObject, *phases: Phase) -> UUID | None:
        fitting = [task_id for task_id, task in self.tasks.items() if not phases or task.phase in phases]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    # What the end of a task does to others --------------------------------------

    def ends(self, task_id: UUID, end: Step, phase: Phase) -> list[tuple[UUID, Step]]:
        """Tell all that the end of a task does, itself included, in order."""
        steps: list[tuple[UUID, Step]] = [(task_id, end)]
        ended = [task_id]
        reason = f"the task {self.tasks[task_id].name}, which this one depends on, ended as {phase}"
        if phase is not Phase.COMPLETED:
            for parent in ended:
                for edge in self.children(parent):
                    if edge.run_on_failure or edge.child_id in ended or not self.tasks[edge.child_id].is_blocked:
                        continue
                    ended.append(edge.child_id)
                    steps.append((edge.child_id, partial(canceled, reason=reason)))
        lowered: dict[UUID, int] = {}
        for parent in ended:
            for edge in self.children(parent):
                if not edge.done and (phase is Phase.COMPLETED or edge.run_on_failure):
                    self.edges[edge.child_id, edge.parent_id] = structs.replace(edge, done=True)
                    if self.tasks[edge.child_id].is_blocked and edge.child_id not in ended:
                        lowered[edge.child_id] = lowered.get(edge.child_id, 0) + 1
        steps += [(child, partial(lower, number=number)) for child, number in lowered.items()]
        return steps

    def children(self, parent_id: UUID) -> list[Edge]:
        return [edge for edge in self.edges.values() if edge.parent_id == parent_id]

    # Commands ----------------------------------------------------------------------

    @initialize(new=graphs())
    def begin(self, new: NewJob) -> None:
        self.empty()
        self.job_ids: list[UUID] = []
        self.submit(new)

    @rule(new=graphs())
    @precondition(lambda self: len(self.tasks) < 12)
    def submit_another(self, new: NewJob) -> None:
        self.submit(new)

    def submit(self, new: NewJob) -> None:
        made = self.run(self.house.jobs.submit(new))
        self.job_ids.append(made.id)
        assert made.job
        assert (made.job.status, made.job.task_count) == (JobStatus.PENDING, len(new.members))
        for place, member in enumerate(new.members):
            task_id = made.task_ids[member.name]
            place_in_job = Membership(job_id=made.id, name=member.name, waiting_on=len(member.depends_on))
            now = self.stored(task_id).update_time
            self.tasks[task_id] = transitions.submit(member.new, task_id, now, place, place_in_job)
            for name in member.depends_on:
                parent_id = made.task_ids[name]
                assert parent_id < task_id
                self.edges[task_id, parent_id] = Edge(
                    child_id=task_id,
                    parent_id=parent_id,
                    done=False,
                    run_on_failure=member.on_parent_failure is OnParentFailure.RUN,
                )
        self.apply([])

    @rule(count=st.integers(1, 3))
    def claim(self, count: int) -> None:
        claim = Claim(queues=("q",), count=count, worker_id="w")
        ready = sorted((task for task in self.tasks.values() if task.phase is Phase.READY), key=lambda task: task.order)
        entries = self.run(self.house.claims["scan"].claim(claim))
        assert [entry.task.id for entry in entries] == [task.id for task in ready[:count]]
        self.apply([(task.id, partial(claimed, claim=claim)) for task in ready[:count]])

    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        if task_id := self.pick(data, Phase.HELD):
            steps = self.ends(task_id, partial(ended, phase=Phase.COMPLETED), Phase.COMPLETED)
            self.run(self.house.endings.complete(task_id, self.held(task_id), None, ()))
            self.apply(steps)

    @rule(data=st.data())
    def complete_unheld(self, data: st.DataObject) -> None:
        if task_id := self.pick(data, Phase.READY):
            steps = self.ends(task_id, partial(ended, phase=Phase.COMPLETED), Phase.COMPLETED)
            self.run(self.house.endings.complete(task_id, Match(current_state="submitted"), None, ()))
            self.apply(steps)

    @rule(data=st.data())
    def fail_and_revive(self, data: st.DataObject) -> None:
        if task_id := self.pick(data, Phase.HELD):
            self.do_fail(task_id, retryable=False)
            self.do_revive(task_id)

    @rule(data=st.data(), retryable=st.booleans())
    def fail(self, data: st.DataObject, retryable: bool) -> None:
        if task_id := self.pick(data, Phase.HELD):
            self.do_fail(task_id, retryable=retryable)

    def do_fail(self, task_id: UUID, *, retryable: bool) -> None:
        failure = Failure(error="e", retryable=retryable, retry_in=MICROSECOND if retryable else None)
        step = partial(failed, failure=failure)
        is_end = step(self.tasks[task_id], self.tasks[task_id].update_time).phase is Phase.FAILED
        steps = self.ends(task_id, step, Phase.FAILED) if is_end else [(task_id, step)]
        self.run(self.house.endings.fail(task_id, self.held(task_id), failure))
        self.apply(steps)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if task_id := self.pick(data, Phase.HELD, Phase.READY, Phase.PARKED):
            step = partial(ended, phase=Phase.CANCELED, canceled_by=CanceledBy.REQUEST)
            steps = self.ends(task_id, step, Phase.CANCELED)
            self.run(self.house.endings.cancel(task_id, Match()))
            self.apply(steps)

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """Have a hold time out by a sweep in the future: others are swept, too, and put back."""
        held = [task for task in self.tasks.values() if task.phase is Phase.HELD]
        if not held:
            return
        dead = [task for task in held if task.max_lost is not None and task.lost + 1 >= task.max_lost]
        if len(dead) > 1:
            return  # the reason told to a child of several is any one of them
        steps: list[tuple[UUID, Step]] = [(task.id, timed_out) for task in held if task not in dead]
        for task in dead:
            steps += self.ends(task.id, timed_out, Phase.FAILED)
        assert self.run(self.house.clocks.clean_up(FUTURE, "q")) == len(held)
        self.apply(steps)

    @rule()
    def unpark(self) -> None:
        due = [
            task.id
            for task in self.tasks.values()
            if task.phase is Phase.PARKED and task.due_time and not is_late(task)
        ]
        assert self.run(self.house.clocks.unpark()) == len(due)
        self.apply([(task_id, transitions.unpark) for task_id in due])

    @rule(data=st.data())
    def revive(self, data: st.DataObject) -> None:
        if task_id := self.pick(data, Phase.FAILED, Phase.CANCELED):
            self.do_revive(task_id)

    def do_revive(self, task_id: UUID) -> None:
        job_id = self.tasks[task_id].job_id
        assert job_id
        steps = self.revived(job_id, [task_id])
        answer = self.answer(self.house.revivals.revive(task_id))
        if steps is None:
            assert isinstance(answer, Conflict)
            assert answer.code is Code.PARENT_ENDED
            steps = []
        else:
            assert isinstance(answer, Written)
            assert not answer.replayed
        self.apply(steps)

    @rule(data=st.data())
    def revive_job(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.job_ids))
        tasks = self.of(job_id)
        wanted = [task.id for task in tasks.values() if is_ended_by_job(task)]
        is_completed = status_of(tasks.values()) is JobStatus.COMPLETED
        steps = [] if is_completed or not wanted else self.revived(job_id, wanted, is_whole=True)
        answer = self.answer(self.house.jobs.revive(job_id))
        assert isinstance(answer, Conflict) == is_completed
        assert steps is not None
        self.apply(steps)

    @rule(data=st.data())
    def cancel_job(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.job_ids))
        tasks = self.of(job_id)
        live = [task.id for task in tasks.values() if task.phase not in ARCHIVED]
        was_canceled = any(task.canceled_by is CanceledBy.JOB for task in tasks.values())
        is_over = not live and not was_canceled and status_of(tasks.values()) is not JobStatus.CANCELED
        answer = self.answer(self.house.jobs.cancel(job_id))
        assert isinstance(answer, Conflict) == is_over
        step = partial(ended, phase=Phase.CANCELED, canceled_by=CanceledBy.JOB)
        self.apply([(task_id, step) for task_id in live])

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self.job_ids))
        graph = self.run(self.house.jobs.get(job_id))
        tasks = self.of(job_id)
        assert {task.id: task for task in graph.tasks} == tasks
        assert {(edge.child_id, edge.parent_id): edge for edge in graph.edges} == {
            key: edge for key, edge in self.edges.items() if edge.child_id in tasks
        }
        assert graph.job.status is status_of(tasks.values())
        self.run(self.house.statuses.follow())
        [row] = self.run(self.house.rows("SELECT status, end_time FROM jobs WHERE id = $1", job_id))
        assert row["status"] == graph.job.status
        assert (row["end_time"] is None) == (graph.job.end_time is None)

    # What is known --------------------------------------------------------------------

    def of(self, job_id: UUID) -> dict[UUID, Task]:
        return {task_id: task for task_id, task in self.tasks.items() if task.job_id == job_id}

    def held(self, task_id: UUID) -> Match:
        return Match(delivery=self.tasks[task_id].delivery)

    def revived(self, job_id: UUID, wanted: list[UUID], *, is_whole: bool = False) -> list[tuple[UUID, Step]] | None:
        """Tell what a revival does; None if it is to be refused."""
        tasks = self.of(job_id)
        plan = revival(tasks, [edge for edge in self.edges.values() if edge.child_id in tasks], wanted)
        if not is_whole and wanted[0] not in plan.waiting_on:
            return None
        for edge in plan.edges:
            self.edges[edge.child_id, edge.parent_id] = edge
        steps: list[tuple[UUID, Step]] = [
            (task_id, partial(revive_task, waiting_on=number)) for task_id, number in plan.waiting_on.items()
        ]
        steps += [(task_id, partial(wait_for, number=number)) for task_id, number in plan.more.items()]
        return steps

    def teardown(self) -> None:
        """Demand what holds of jobs at any time."""
        for task in self.tasks.values():
            edges = [edge for edge in self.edges.values() if edge.child_id == task.id]
            if task.phase not in ARCHIVED:
                assert task.waiting_on == sum(not edge.done for edge in edges)
                assert task.is_blocked == (task.waiting_on > 0)
                for edge in edges:
                    has_failed = self.tasks[edge.parent_id].phase in {Phase.FAILED, Phase.CANCELED}
                    assert not has_failed or edge.run_on_failure
        page = self.run(self.house.reading.page(Filter(), Place(), 100, Include()))
        assert {entry.task.id for entry in page.entries} == {
            task.id for task in self.tasks.values() if task.phase not in ARCHIVED
        }


def canceled(task: Task, now: datetime, reason: str) -> Task:
    return structs.replace(transitions.end(task, Phase.CANCELED, now, CanceledBy.PARENT), last_error=reason)


def lower(task: Task, now: datetime, number: int) -> Task:
    return transitions.lower(task, number, now)


def claimed(task: Task, now: datetime, claim: Claim) -> Task:
    return transitions.claim(task, claim, now, DEFAULT_TIMEOUT)


def ended(task: Task, now: datetime, phase: Phase, canceled_by: CanceledBy | None = None) -> Task:
    return transitions.end(task, phase, now, canceled_by)


def failed(task: Task, now: datetime, failure: Failure) -> Task:
    return transitions.fail(task, failure, now)


def timed_out(task: Task, now: datetime) -> Task:
    return transitions.time_out(task, now)


def revive_task(task: Task, now: datetime, waiting_on: int) -> Task:
    return transitions.revive(task, waiting_on, now)


def wait_for(task: Task, now: datetime, number: int) -> Task:
    return structs.replace(task, waiting_on=task.waiting_on + number, update_time=now)


def is_late(task: Task) -> bool:
    """Whether it is not due before the test is over."""
    return task.due_time is not None and task.due_time > task.update_time + HOUR / 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_the_rules_of_jobs_and_the_store_agree(empty_database_url: str, isolation: Isolation) -> None:
    loop = asyncio.new_event_loop()
    database = Database(empty_database_url, isolation=isolation, pool_size=1)
    try:
        run_machine(
            lambda: Machine(loop, House(database)),  # type: ignore[arg-type]  # any maker will do
            settings=settings(settings.default, max_examples=60, stateful_step_count=40),
        )
    finally:
        loop.run_until_complete(database.close())
        loop.close()
