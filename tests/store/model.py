"""The store as the pure rules have it: a dict of tasks, and what is kept of their pasts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from corndog.domain import replays, transitions
from corndog.domain.errors import Code, NotFound
from corndog.domain.listing import Entry, Filter
from corndog.domain.task import (
    ARCHIVED,
    CanceledBy,
    Change,
    Claim,
    Content,
    Failure,
    Match,
    NewTask,
    Outcome,
    Phase,
    Run,
    Task,
)
from tests.store.house import DEFAULT_TIMEOUT
from tests.unit.samples import Past


class Model:
    """What the database should hold. Whatever writes is told the time that the database did it."""

    def __init__(self) -> None:
        self.tasks: dict[UUID, Task] = {}
        self.payloads: dict[UUID, Content] = {}
        self.results: dict[UUID, Content] = {}
        self.runs: dict[tuple[UUID, int], Run] = {}
        self.ends: dict[UUID, tuple[Outcome, bytes | None, tuple[UUID, ...]]] = {}

    # What is known ---------------------------------------------------------

    def known(self, task_id: UUID) -> Task:
        """Give a task, live or archived.

        Raises:
            NotFound: there is none.

        """
        if task_id not in self.tasks:
            raise NotFound(Code.TASK_NOT_FOUND, f"there is no task {task_id}")
        return self.tasks[task_id]

    def entry(self, task_id: UUID) -> Entry:
        return Entry(self.tasks[task_id], self.payloads.get(task_id), self.results.get(task_id))

    def is_repeat(self, task_id: UUID, delivery: int | None, request: bytes) -> bool:
        run = self.runs.get((task_id, delivery)) if delivery is not None else None
        _, end_request, _ = self.ends.get(task_id, (None, None, ()))
        past = Past(
            task=self.known(task_id),
            end_request=end_request,
            run_outcome=run.outcome if run else None,
            run_request=run.request if run else None,
        )
        return replays.is_replay(past, delivery, request)

    def live(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.phase not in ARCHIVED]

    def counts(self, queue: str | None = None) -> list[tuple[str, str, int]]:
        pairs = [(task.queue, task.current_state) for task in self.live() if queue in {None, task.queue}]
        return [(*pair, pairs.count(pair)) for pair in sorted(set(pairs), key=lambda pair: [x.encode() for x in pair])]

    def listed(self, wanted: Filter) -> list[Entry]:
        fitting = (
            task
            for task in self.tasks.values()
            if (task.phase in ARCHIVED) == wanted.archived
            and wanted.queue in {None, task.queue}
            and wanted.current_state in {None, task.current_state}
            and wanted.phase in {None, task.phase}
            and wanted.kind in {None, task.kind}
            and wanted.worker_id in {None, task.held_by}
            and wanted.submitted_after <= task.submit_time < wanted.submitted_before
        )
        return [self.entry(task.id) for task in sorted(fitting, key=lambda task: (task.submit_time, task.id))]

    # What happens ----------------------------------------------------------

    def submit(self, news: Sequence[NewTask], ids: Sequence[UUID], now: datetime) -> None:
        for place, (new, task_id) in enumerate(zip(news, ids, strict=True)):
            assert task_id not in self.tasks
            self.tasks[task_id] = transitions.submit(new, task_id, now, place)
            if new.payload:
                self.payloads[task_id] = new.payload

    def next(self, claim: Claim) -> list[UUID]:
        """Tell whom a claim should get, in order."""
        ready = [task for task in self.tasks.values() if transitions.is_claimable(task, claim)]
        return [task.id for task in sorted(ready, key=lambda task: task.order)[: claim.count]]

    def claim(self, task_id: UUID, claim: Claim, now: datetime) -> None:
        self.tasks[task_id] = transitions.claim(self.tasks[task_id], claim, now, DEFAULT_TIMEOUT)

    def update(self, task_id: UUID, change: Change, now: datetime, request: bytes) -> None:
        task = self.tasks[task_id]
        if transitions.is_move(task, change):
            self._end_run(task, Outcome.MOVED, now, request)
        self.tasks[task_id] = transitions.update(task, change, now)
        if change.payload:
            self.payloads[task_id] = change.payload

    def release(self, task_id: UUID, delay: timedelta | None, now: datetime, request: bytes) -> None:
        task = self.tasks[task_id]
        self._end_run(task, Outcome.RELEASED, now, request)
        self.tasks[task_id] = transitions.release(task, delay, now)

    def fail(self, task_id: UUID, failure: Failure, now: datetime, request: bytes) -> None:
        task = self.tasks[task_id]
        self.tasks[task_id] = after = transitions.fail(task, failure, now)
        if after.phase is Phase.FAILED:
            self.ends[task_id] = (Outcome.FAILED, request, ())
        else:
            self._end_run(task, Outcome.FAILED, now, request, failure.error)

    def revive(self, task_id: UUID, now: datetime) -> None:
        task = self.tasks[task_id]
        outcome, request, _ = self.ends.pop(task_id)
        if task.claim_time is not None:
            self.runs[task_id, task.delivery] = Run(
                task_id=task_id,
                delivery=task.delivery,
                worker_id=task.held_by or "",
                claim_time=task.claim_time,
                end_time=task.update_time,
                outcome=outcome,
                request=request,
                error=task.last_error if outcome is Outcome.FAILED else None,
            )
        self.tasks[task_id] = transitions.revive(task, 0, now)

    def history(self, task_id: UUID) -> list[Run]:
        """Give all deliveries of a task, the one that holds it and the one that ended it included."""
        runs = [run for (owner, _), run in self.runs.items() if owner == task_id]
        task = self.tasks[task_id]
        if task.claim_time is None:
            return runs
        outcome, request, _ = self.ends.get(task_id, (None, None, ()))
        last = Run(
            task_id=task_id,
            delivery=task.delivery,
            worker_id=task.held_by or "",
            claim_time=task.claim_time,
            end_time=task.update_time if outcome else None,
            outcome=outcome,
            request=request,
            error=task.last_error if outcome is Outcome.FAILED else None,
        )
        return [*runs, last]

    def complete(
        self, task_id: UUID, result: Content | None, next_ids: Sequence[UUID], now: datetime, request: bytes
    ) -> None:
        self.tasks[task_id] = transitions.end(self.tasks[task_id], Phase.COMPLETED, now)
        self.ends[task_id] = (Outcome.SUCCEEDED, request, tuple(next_ids))
        if result:
            self.results[task_id] = result

    def cancel(self, task_id: UUID, now: datetime) -> None:
        self.tasks[task_id] = transitions.end(self.tasks[task_id], Phase.CANCELED, now, CanceledBy.REQUEST)
        self.ends[task_id] = (Outcome.CANCELED, None, ())

    def extend(self, task_id: UUID, now: datetime) -> None:
        self.tasks[task_id] = transitions.extend(self.tasks[task_id], now)

    def timed_out(self, at_time: datetime, began: datetime, queue: str | None) -> list[UUID]:
        return [task.id for task in self.tasks.values() if transitions.is_timed_out(task, at_time, began, queue)]

    def time_out(self, task_id: UUID, now: datetime) -> None:
        task = self.tasks[task_id]
        self.tasks[task_id] = after = transitions.time_out(task, now)
        if after.phase is Phase.FAILED:
            self.ends[task_id] = (Outcome.DEAD, None, ())
        else:
            self._end_run(task, Outcome.DEAD, now, None)

    def due(self, now: datetime) -> list[UUID]:
        return [task.id for task in self.tasks.values() if transitions.is_unparkable(task, now)]

    def unpark(self, task_id: UUID, now: datetime) -> None:
        self.tasks[task_id] = transitions.unpark(self.tasks[task_id], now)

    def _end_run(
        self, task: Task, outcome: Outcome, now: datetime, request: bytes | None, error: str | None = None
    ) -> None:
        if run := transitions.ended_run(task, outcome, now, request, error):
            assert (task.id, task.delivery) not in self.runs
            self.runs[task.id, task.delivery] = run


def match_for(task: Task, delivery: str, state: str, queue: str) -> Match:
    """Make a match of which each field is right, wrong in some way, or not given."""
    holds = task.claim_time is not None
    deliveries = {"right": task.delivery if holds else None, "old": max(task.delivery - 1, 1), "new": task.delivery + 1}
    states = {"right": task.current_state, "home": task.home_state, "wrong": "elsewhere"}
    known = states.get(state)
    return Match(
        delivery=deliveries.get(delivery),
        current_state=task.current_state if state == "needed" and not holds else known,
        queue={"right": task.queue, "wrong": "elsewhere"}.get(queue),
    )
