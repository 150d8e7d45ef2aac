"""The use cases that end a task, or one of its tries: complete, fail, cancel."""

from collections.abc import Sequence
from functools import partial
from random import Random
from uuid import UUID

import msgspec

from corndog.domain import checks, replays
from corndog.domain.task import Content, Failure, Match, NewTask, Outcome, Phase, Task, Window
from corndog.service.dependents import settle
from corndog.service.groups import GROUP_SIZE, Group, bytes_of, id_of
from corndog.service.ids import NewId
from corndog.service.requests import hash_of
from corndog.service.writes import Write, Writes, Written, find_each
from corndog.store import tasks as store
from corndog.store.engine import Connection
from corndog.store.rows import Found

_OUTCOMES = {
    Phase.COMPLETED: Outcome.SUCCEEDED,
    Phase.FAILED: Outcome.FAILED,
    Phase.CANCELED: Outcome.CANCELED,
}


class _Completion(msgspec.Struct, frozen=True):
    """A task to be completed, and what is submitted with that."""

    ending: store.Ending
    next_tasks: Sequence[store.Submission]

    @property
    def id(self) -> UUID:
        """The task's id."""
        return self.ending.id

    @property
    def bytes(self) -> int:
        """The size of its contents."""
        return bytes_of(self.ending.result) + sum(bytes_of(submission.new.payload) for submission in self.next_tasks)


class _Failing(msgspec.Struct, frozen=True):
    """A failed try: what it does if there are more, and if it was the last."""

    failing: store.Failing
    ending: store.Ending

    @property
    def id(self) -> UUID:
        """The task's id."""
        return self.ending.id


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

        def explain(found: Found) -> Written | None:
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, next_task_ids=found.next_task_ids, replayed=True)
            checks.check_match(found.task, match, parked_too=True)
            return None

        written = await self._writes.one(
            Write(
                task_id=task_id,
                delivery=match.delivery,
                alone=lambda: (self._complete_with_others if submissions else self._complete)(completion),
                together=lambda _: self._complete_with_others(completion),
                explain=explain,
                touching=touching,
            )
        )
        return written if written.replayed else Written(task=written.task, next_task_ids=next_ids)

    async def _complete_all(self, completions: Sequence[_Completion]) -> list[Task | None]:
        """Complete tasks that no others wait for, by one statement."""
        return await self._writes.all(
            partial(_end, phase=Phase.COMPLETED),
            [completion.ending for completion in completions],
        )

    async def _complete_all_with_others(self, completions: Sequence[_Completion]) -> list[Task | None]:
        """Complete tasks, submit what comes next, and open what waits for them, in one transaction."""
        touching = {submission.new.window for completion in completions for submission in completion.next_tasks}
        endings = sorted((completion.ending for completion in completions), key=id_of)

        async def work(connection: Connection) -> list[Task]:
            ended = await _end(connection, endings, Phase.COMPLETED, with_dependents=True)
            written = list(ended.values())
            if next_tasks := [
                task for completion in completions if completion.id in ended for task in completion.next_tasks
            ]:
                written += (await store.submit(connection, next_tasks)).values()
            return written + await settle(connection, ended.values(), touching)

        return find_each(completions, await self._writes.run(work, atomically=True, touching=touching))

    async def _fail_all(self, failures: Sequence[_Failing]) -> list[Task | None]:
        """Report failed tries of tasks that no others wait for: the last ones end their tasks."""
        in_order = sorted(failures, key=id_of)

        async def work(connection: Connection) -> list[Task]:
            failed: dict[UUID, Task] = {}
            if failing := [failure.failing for failure in in_order if failure.ending.if_spent]:
                failed = await store.fail(connection, failing)
            ended: dict[UUID, Task] = {}
            if ending := [failure.ending for failure in in_order if failure.id not in failed]:
                ended = await _end(connection, ending, Phase.FAILED)
            return [*failed.values(), *ended.values()]

        return find_each(failures, await self._writes.run(work))

    async def _with_dependents(self, ending: store.Ending, phase: Phase, touching: set[Window]) -> Task | None:
        """End a task as failed or canceled, with what that does to those that wait for it."""

        async def work(connection: Connection) -> list[Task]:
            ended = list((await _end(connection, [ending], phase, with_dependents=True)).values())
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

        async def together(_: Found) -> Task | None:
            # Only its last failure is a matter of those that wait for it.
            task = await self._fail(_Failing(failing, ending))
            return task or await self._with_dependents(ending, Phase.FAILED, touching)

        def explain(found: Found) -> Written | None:
            if found.write_token == failing.token:
                return Written(task=found.task)
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, replayed=True)
            checks.check_match(found.task, match, parked_too=False)
            return None

        return await self._writes.one(
            Write(
                task_id=task_id,
                delivery=match.delivery,
                alone=lambda: self._fail(_Failing(failing, ending)),
                together=together,
                explain=explain,
                touching=touching,
            )
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
            [task] = await self._writes.all(partial(_end, phase=Phase.CANCELED), [ending])
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


async def _end(
    connection: Connection, endings: Sequence[store.Ending], phase: Phase, *, with_dependents: bool = False
) -> dict[UUID, Task]:
    """End tasks, each in the way that leads to this phase."""
    return await store.end(
        connection,
        endings,
        phase=phase,
        outcome=_OUTCOMES[phase],
        any_phase=phase is Phase.CANCELED,
        with_dependents=with_dependents,
    )
