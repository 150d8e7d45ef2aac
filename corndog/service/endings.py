"""The use cases that end a task, or one of its tries: complete, fail, cancel."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Protocol
from uuid import UUID

import msgspec

from corndog.domain import checks, replays
from corndog.domain.task import Content, Failure, Match, NewTask, Outcome, Phase, Task, Window
from corndog.service.dependents import settle
from corndog.service.groups import Group
from corndog.service.ids import NewId
from corndog.service.requests import hash_of
from corndog.service.writes import Write, Writes, Written
from corndog.store import tasks as store
from corndog.store.engine import Connection
from corndog.store.rows import Found


class _End(Protocol):
    """Work that ends a task; `with_dependents` also if others wait for it."""

    async def __call__(self, connection: Connection, *, with_dependents: bool) -> list[Task]: ...


_SLOTS = 2
_SIZE = 100
"""How many groups of completions are under way at a time, and how large they are at most."""


class _Completion(msgspec.Struct, frozen=True):
    """A task to be completed, and what is submitted with that."""

    ending: store.Ending
    next_tasks: Sequence[store.Submission]


class Endings:
    """Ends tasks; each with what that does to the tasks that wait for it, in one transaction."""

    def __init__(self, writes: Writes, new_id: NewId, random: Random | None = None) -> None:
        self._writes = writes
        self._new_id = new_id
        self._random = random or Random()
        self._complete_together = Group(
            self._complete_group, lambda completion: completion.ending.id, slots=_SLOTS, size=_SIZE
        )

    async def complete(
        self, task_id: UUID, match: Match, result: Content | None, next_tasks: Sequence[NewTask]
    ) -> Written:
        """Archive a task as completed; store its result and submit its next tasks in the same transaction.

        Raises:
            Invalid: a next task breaks a rule, or neither `delivery` nor `current_state` is given.
            NotFound: there is no such task.
            Conflict: the task is not what `match` says.

        """
        checks.check_given(match)
        for place, new in enumerate(next_tasks):
            checks.check_new(new, at=f"next_tasks[{place}].")
        submissions = [store.Submission(self._new_id(), new) for new in next_tasks]
        next_ids = tuple(submission.id for submission in submissions)
        request = hash_of("complete", match, result, next_tasks)
        completion = _Completion(
            store.Ending(id=task_id, match=match, request=request, next_task_ids=next_ids, result=result), submissions
        )
        touching = {new.window for new in next_tasks}

        async def alone() -> Sequence[Task]:
            work = partial(_complete, completions=[completion], touching=touching, with_dependents=False)
            return await self._writes.run(work, atomically=bool(submissions), touching=touching)

        async def together(_found: Found) -> Sequence[Task]:
            completed = await self._complete_together(completion)
            return [completed] if completed else []

        def explain(found: Found) -> Written | None:
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, next_task_ids=found.next_task_ids, replayed=True)
            checks.check_match(found.task, match, parked_too=True)
            return None

        written = await self._writes.one(
            Write(
                task_id=task_id,
                delivery=match.delivery,
                alone=alone,
                together=together,
                explain=explain,
                touching=touching,
            )
        )
        return written if written.replayed else Written(task=written.task, next_task_ids=next_ids)

    async def _end_one(
        self, task_id: UUID, match: Match, work: _End, explain: Callable[[Found], Written | None], touching: set[Window]
    ) -> Written:
        return await self._writes.one(
            Write(
                task_id=task_id,
                delivery=match.delivery,
                alone=lambda: self._writes.run(partial(work, with_dependents=False)),
                together=lambda _: self._writes.run(
                    partial(work, with_dependents=True), atomically=True, touching=touching
                ),
                explain=explain,
                touching=touching,
            )
        )

    async def _complete_group(self, completions: Sequence[_Completion]) -> dict[UUID, Task]:
        """Complete tasks, and open what waits for them, in one transaction."""
        touching = {submission.new.window for completion in completions for submission in completion.next_tasks}
        work = partial(_complete, completions=completions, touching=touching, with_dependents=True)
        written = await self._writes.run(work, atomically=True, touching=touching)
        return {task.id: task for task in written if task.phase is Phase.COMPLETED}

    async def fail(self, task_id: UUID, match: Match, failure: Failure) -> Written:
        """Use up an attempt of a held task: it is tried again after its backoff, or ends as failed if none is left.

        What waits for a task that ends so is canceled, unless it is to run all the same.

        Raises:
            NotFound: there is no such task.
            Conflict: this delivery does not hold the task, or the task is not what `match` says.

        """
        request = hash_of("fail", match, failure)
        touching: set[Window] = set()
        failing = store.Failing(
            id=task_id,
            match=match,
            failure=msgspec.structs.replace(failure, chance=self._random.random()),
            request=request,
            token=self._new_id(),
        )
        ending = store.Ending(id=task_id, match=match, request=request, error=failure.error, if_spent=failure.retryable)

        async def work(connection: Connection, *, with_dependents: bool) -> list[Task]:
            if failure.retryable and (failed := await store.fail(connection, [failing])):
                return list(failed.values())
            return await _end(connection, ending, Phase.FAILED, touching, with_dependents=with_dependents)

        def explain(found: Found) -> Written | None:
            if found.write_token == failing.token:
                return Written(task=found.task)
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, replayed=True)
            checks.check_match(found.task, match, parked_too=False)
            return None

        return await self._end_one(task_id, match, work, explain, touching)

    async def cancel(self, task_id: UUID, match: Match) -> Written:
        """Archive a task as canceled, whoever holds it, and with it what waits for it.

        Raises:
            NotFound: there is no such task.
            Conflict: it has ended otherwise, or is not what `match` says.

        """
        ending = store.Ending(id=task_id, match=match)
        touching: set[Window] = set()

        async def work(connection: Connection, *, with_dependents: bool) -> list[Task]:
            return await _end(connection, ending, Phase.CANCELED, touching, with_dependents=with_dependents)

        def explain(found: Found) -> Written | None:
            if replays.is_cancel_replay(found.task):
                checks.check_queue(found.task, match)
                return Written(task=found.task, replayed=True)
            checks.check_fields(found.task, match)
            return None

        return await self._end_one(task_id, match, work, explain, touching)


async def _complete(
    connection: Connection, completions: Sequence[_Completion], touching: set[Window], *, with_dependents: bool
) -> list[Task]:
    """Complete tasks and submit what comes next, as far as they could be; and settle what that does to others."""
    ended = await store.end(
        connection,
        [completion.ending for completion in completions],
        phase=Phase.COMPLETED,
        outcome=Outcome.SUCCEEDED,
        with_dependents=with_dependents,
    )
    written = list(ended.values())
    if next_tasks := [
        task for completion in completions if completion.ending.id in ended for task in completion.next_tasks
    ]:
        written += (await store.submit(connection, next_tasks)).values()
    if ended and with_dependents:
        written += await settle(connection, ended.values(), touching)
    return written


async def _end(
    connection: Connection, ending: store.Ending, phase: Phase, touching: set[Window], *, with_dependents: bool
) -> list[Task]:
    """End a task as failed or canceled, and settle what that does to others."""
    ended = await store.end(
        connection,
        [ending],
        phase=phase,
        outcome=Outcome.FAILED if phase is Phase.FAILED else Outcome.CANCELED,
        any_phase=phase is Phase.CANCELED,
        with_dependents=with_dependents,
    )
    written = list(ended.values())
    return written + await settle(connection, written, touching) if with_dependents else written
