"""The use cases that end a task, or one of its tries: complete, fail, cancel."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import NamedTuple, TypeVar
from uuid import UUID

import msgspec

from corndog.domain import checks, replays
from corndog.domain.errors import Invalid
from corndog.domain.task import Content, Failure, Match, NewTask, Phase, Task, Window
from corndog.service import ends
from corndog.service.dependents import settle
from corndog.service.groups import GROUP_SIZE, Group, id_of
from corndog.service.ids import NewId
from corndog.service.requests import hash_of
from corndog.service.writes import Write, Writes, Written, find_each
from corndog.store import tasks as store
from corndog.store.engine import Connection
from corndog.store.rows import Found


class Completing(NamedTuple):
    """What is asked for: a task to be completed, its result, and what is submitted with that."""

    task_id: UUID
    match: Match
    result: Content | None
    next_tasks: Sequence[NewTask]


class Failing(NamedTuple):
    """What is asked for: a try of a task that has failed."""

    task_id: UUID
    match: Match
    failure: Failure


class Endings:
    """Ends tasks; each with what that does to the tasks that wait for it, in one transaction."""

    def __init__(
        self, writes: Writes, new_id: NewId, random: Random | None = None, group_size: int = GROUP_SIZE
    ) -> None:
        self._writes = writes
        self._new_id = new_id
        self._random = random or Random()
        self._complete = Group(
            "complete", self._complete_all, size=group_size, key_of=id_of, bytes_of=lambda completion: completion.bytes
        )
        self._complete_with_others = Group(
            "complete-with-others",
            self._complete_all_with_others,
            size=group_size,
            key_of=id_of,
            bytes_of=lambda completion: completion.bytes,
        )
        self._fail = Group("fail", self._fail_all, size=group_size, key_of=id_of)

    async def complete(
        self, task_id: UUID, match: Match, result: Content | None, next_tasks: Sequence[NewTask]
    ) -> Written:
        """Archive a task as completed; store its result and submit its next tasks in the same transaction.

        Raises:
            Invalid: a next task breaks a rule, or neither `delivery` nor `current_state` is given.
            NotFound: there is no such task.
            Conflict: the task is not what `match` says.

        """
        completion, write = self._completion(Completing(task_id, match, result, next_tasks))
        return _with_next(completion, await self._writes.one(write))

    async def complete_many(self, asked: Sequence[Completing]) -> list[Written | Exception]:
        """Complete tasks, each by itself."""
        pairs = _each(asked, self._completion)
        right = [pair for pair in pairs if not isinstance(pair, Exception)]
        written = await self._writes.many([write for _, write in right])
        done = iter(
            one if isinstance(one, Exception) else _with_next(completion, one)
            for (completion, _), one in zip(right, written, strict=True)
        )
        return [pair if isinstance(pair, Exception) else next(done) for pair in pairs]

    async def complete_all_or_none(self, asked: Sequence[Completing]) -> list[Written]:
        """Complete tasks in one transaction.

        Raises:
            CorndogError: one of them is refused, which its `field` names; and so all are.

        """
        pairs = _all(asked, self._completion)
        completions = [completion for completion, _ in pairs]

        async def work(connection: Connection, places: Sequence[int], touching: set[Window]) -> ends.Ends:
            return await ends.complete(connection, [completions[place] for place in places], touching)

        written = await self._writes.all_or_none([write for _, write in pairs], work)
        return [_with_next(completion, one) for completion, one in zip(completions, written, strict=True)]

    def _completion(self, asked: Completing) -> tuple[ends.Completion, Write]:
        task_id, match, result, next_tasks = asked
        checks.check_given(match)
        for place, new in enumerate(next_tasks):
            checks.check_new(new, at=f"next_tasks[{place}].")
        submissions = [store.Submission(self._new_id(), new) for new in next_tasks]
        next_ids = tuple(submission.id for submission in submissions)
        request = hash_of("complete", match, result, next_tasks)
        completion = ends.Completion(
            store.Ending(id=task_id, match=match, request=request, next_task_ids=next_ids, result=result), submissions
        )

        def explain(found: Found) -> Written | None:
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, next_task_ids=found.next_task_ids, replayed=True)
            checks.check_match(found.task, match, parked_too=True)
            return None

        return completion, Write(
            task_id=task_id,
            delivery=match.delivery,
            alone=lambda: (self._complete_with_others if submissions else self._complete)(completion),
            together=lambda _: self._complete_with_others(completion),
            explain=explain,
            touching={new.window for new in next_tasks},
        )

    async def _complete_all(self, completions: Sequence[ends.Completion]) -> list[Task | None]:
        """Complete tasks that no others wait for, by one statement."""
        return await self._writes.all(
            partial(ends.end, phase=Phase.COMPLETED),
            [completion.ending for completion in completions],
        )

    async def _complete_all_with_others(self, completions: Sequence[ends.Completion]) -> list[Task | None]:
        """Complete tasks, submit what comes next, and open what waits for them, in one transaction."""
        touching = {submission.new.window for completion in completions for submission in completion.next_tasks}
        own: dict[UUID, Task] = {}

        async def work(connection: Connection) -> list[Task]:
            nonlocal own
            own, others = await ends.complete(connection, completions, touching)
            return [*own.values(), *others]

        await self._writes.run(work, atomically=True, touching=touching)
        return find_each(completions, own.values())

    async def _fail_all(self, failures: Sequence[ends.FailedTry]) -> list[Task | None]:
        """Report failed tries of tasks that no others wait for: the last ones end their tasks."""

        async def work(connection: Connection) -> list[Task]:
            return list((await ends.fail(connection, failures)).values())

        return find_each(failures, await self._writes.run(work))

    async def _with_dependents(self, ending: store.Ending, phase: Phase, touching: set[Window]) -> Task | None:
        """End a task as failed or canceled, with what that does to those that wait for it."""

        async def work(connection: Connection) -> list[Task]:
            ended = list((await ends.end(connection, [ending], phase, with_dependents=True)).values())
            return ended + await settle(connection, ended, touching)

        [task] = find_each([ending], await self._writes.run(work, atomically=True, touching=touching))
        return task

    async def fail(self, task_id: UUID, match: Match, failure: Failure) -> Written:
        """Use up an attempt of a held task: it is tried again after its backoff, or ends as failed if none is left.

        What waits for a task that ends so is canceled, unless it is to run all the same.

        Raises:
            NotFound: there is no such task.
            Conflict: this delivery does not hold the task, or the task is not what `match` says.

        """
        _, write = self._failed_try(Failing(task_id, match, failure))
        return await self._writes.one(write)

    async def fail_many(self, asked: Sequence[Failing]) -> list[Written | Exception]:
        """Report failed tries, each by itself."""
        return await self._writes.many([self._failed_try(one)[1] for one in asked])

    async def fail_all_or_none(self, asked: Sequence[Failing]) -> list[Written]:
        """Report failed tries in one transaction.

        Raises:
            CorndogError: one of them is refused, which its `field` names; and so all are.

        """
        pairs = [self._failed_try(one) for one in asked]

        async def work(connection: Connection, places: Sequence[int], touching: set[Window]) -> ends.Ends:
            return await ends.fail_with_dependents(connection, [pairs[place][0] for place in places], touching)

        return await self._writes.all_or_none([write for _, write in pairs], work)

    def _failed_try(self, asked: Failing) -> tuple[ends.FailedTry, Write]:
        task_id, match, failure = asked
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
        failed = ends.FailedTry(failing, ending)

        async def together(_: Found) -> Task | None:
            # Only its last failure is a matter of those that wait for it.
            task = await self._fail(failed)
            return task or await self._with_dependents(ending, Phase.FAILED, touching)

        def explain(found: Found) -> Written | None:
            if found.write_token == failing.token:
                return Written(task=found.task)
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, replayed=True)
            checks.check_match(found.task, match, parked_too=False)
            return None

        return failed, Write(
            task_id=task_id,
            delivery=match.delivery,
            alone=lambda: self._fail(failed),
            together=together,
            explain=explain,
            touching=touching,
        )

    async def cancel(self, task_id: UUID, match: Match) -> Written:
        """Archive a task as canceled, whoever holds it, and with it what waits for it.

        Raises:
            NotFound: there is no such task.
            Conflict: it has ended otherwise, or is not what `match` says.

        """
        ending = store.Ending(id=task_id, match=match)
        touching: set[Window] = set()

        async def alone() -> Task | None:
            [task] = await self._writes.all(partial(ends.end, phase=Phase.CANCELED), [ending])
            return task

        def explain(found: Found) -> Written | None:
            if replays.is_cancel_replay(found.task):
                checks.check_queue(found.task, match)
                return Written(task=found.task, replayed=True)
            checks.check_fields(found.task, match)
            return None

        return await self._writes.one(
            Write(
                task_id=task_id,
                delivery=match.delivery,
                alone=alone,
                together=lambda _: self._with_dependents(ending, Phase.CANCELED, touching),
                explain=explain,
                touching=touching,
            )
        )


_Asked = TypeVar("_Asked", Completing, Failing)
_Made = TypeVar("_Made")


def _each(asked: Sequence[_Asked], make: Callable[[_Asked], _Made]) -> list[_Made | Exception]:
    """Make what is asked for, or give the rule that it breaks."""
    made: list[_Made | Exception] = []
    for one in asked:
        try:
            made.append(make(one))
        except Invalid as error:
            made.append(error)
    return made


def _all(asked: Sequence[_Asked], make: Callable[[_Asked], _Made]) -> list[_Made]:
    """Make what is asked for, and name the item that breaks a rule."""
    made: list[_Made] = []
    for place, one in enumerate(asked):
        try:
            made.append(make(one))
        except Invalid as error:
            error.field = f"tasks[{place}].{error.field}" if error.field else f"tasks[{place}]"
            raise
    return made


def _with_next(completion: ends.Completion, written: Written) -> Written:
    """Name the tasks that a completion has submitted."""
    return written if written.replayed else Written(task=written.task, next_task_ids=completion.ending.next_task_ids)
