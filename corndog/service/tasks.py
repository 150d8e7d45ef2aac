"""The use cases that write one task: submit, update, complete, release, cancel."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

import msgspec

from corndog.domain import checks, replays
from corndog.domain.errors import Code, CorndogError, NotFound, Unavailable
from corndog.domain.listing import Include
from corndog.domain.task import Change, Content, Match, NewTask, Outcome, Phase, Task, Window
from corndog.service.ids import NewId
from corndog.service.writes import Work, Writes
from corndog.store import tasks as store
from corndog.store.engine import Connection, Database
from corndog.store.reading import get
from corndog.store.rows import Found
from corndog.store.sqlstates import Meaning, meaning

_T = TypeVar("_T")

_TRIES = 20
"""How often a write is tried on a task that changes each time between the write and the look at why it failed."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a write; `replayed` where an earlier request had done it already."""

    task: Task
    next_task_ids: Sequence[UUID] = ()
    replayed: bool = False


class Tasks:
    """Writes tasks."""

    def __init__(self, database: Database, writes: Writes, new_id: NewId) -> None:
        self._database = database
        self._writes = writes
        self._new_id = new_id

    async def submit(self, news: Sequence[NewTask]) -> list[Task]:
        """Submit tasks, all or none, first in first.

        Raises:
            Invalid: one of them breaks a rule.

        """
        for new in news:
            checks.check_new(new)
        items = [store.Submission(self._new_id(), new) for new in news]
        ids = [item.id for item in items]
        is_rerun = False

        async def work(connection: Connection) -> list[Task]:
            nonlocal is_rerun
            # What a lost run has submitted may have ended since, and its id would be free again among the live tasks.
            known = await _find(connection, ids) if is_rerun else {}
            is_rerun = True
            if missing := [item for item in items if item.id not in known]:
                known |= await store.submit(connection, missing)
            if len(known) < len(items):
                # The lost run was committed while this one waited for it.
                known |= await _find(connection, ids)
            return [known[task_id] for task_id in ids]

        return list(await self._writes.run(work, touching={new.window for new in news}))

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
        request = _hash("complete", match, result, next_tasks)
        ending = store.Ending(id=task_id, match=match, request=request, next_task_ids=next_ids, result=result)

        async def work(connection: Connection) -> list[Task]:
            written = await store.end(connection, [ending], phase=Phase.COMPLETED, outcome=Outcome.SUCCEEDED)
            if written and submissions:
                written |= await store.submit(connection, submissions)
            return list(written.values())

        def explain(found: Found) -> Written | None:
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, next_task_ids=found.next_task_ids, replayed=True)
            checks.check_match(found.task, match, parked_too=True)
            return None

        written = await self._write(
            task_id,
            match.delivery,
            work,
            explain,
            atomically=bool(submissions),
            touching={n.window for n in next_tasks},
        )
        return written if isinstance(written, Written) else Written(task=written, next_task_ids=next_ids)

    async def update(self, task_id: UUID, match: Match, change: Change) -> Written:
        """Move a task to a new state, or write its progress.

        Raises:
            Invalid: neither `delivery` nor `current_state` is given, or a clock would end where no worker looks.
            NotFound: there is no such task.
            Conflict: the task is not what `match` says.
            Unavailable: an answer was lost, and what has become of the task since doesn't tell whether this happened.

        """
        checks.check_given(match)
        request = _hash("update", match, change)
        item = store.Update(id=task_id, match=match, change=change, request=request, token=self._new_id())

        def explain(found: Found) -> Written | None:
            if found.write_token == item.token:
                return Written(task=found.task)
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, replayed=True)
            try:
                checks.check_match(found.task, match, parked_too=True)
                checks.check_change(found.task, change)
            except CorndogError:
                if work.may_have_happened:
                    # Others have written the task since, and an update of an unheld task leaves no history.
                    raise Unavailable("the connection was lost: the update may have happened; read the task") from None
                raise
            return None

        work = _Tracked(_group(store.update, [item]))
        return _as_written(await self._write(task_id, match.delivery, work, explain))

    async def release(self, task_id: UUID, match: Match, delay: timedelta | None) -> Written:
        """Give a held task back, at once or after a delay; no attempt is used up.

        Raises:
            NotFound: there is no such task.
            Conflict: this delivery does not hold the task, or the task is not what `match` says.

        """
        request = _hash("release", match, delay)
        item = store.Release(id=task_id, match=match, delay=delay, request=request, token=self._new_id())

        def explain(found: Found) -> Written | None:
            if found.write_token == item.token:
                return Written(task=found.task)
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, replayed=True)
            checks.check_match(found.task, match, parked_too=False)
            return None

        work = _group(store.release, [item])
        return _as_written(await self._write(task_id, match.delivery, work, explain))

    async def give_back(self, held: Sequence[Task]) -> None:
        """Release tasks that were handed out to a caller who has gone."""
        items = [
            store.Release(
                id=task.id,
                match=(match := Match(delivery=task.delivery)),
                delay=None,
                request=_hash("release", match, None),
                token=self._new_id(),
            )
            for task in sorted(held, key=lambda task: task.id)
        ]
        await self._writes.run(_group(store.release, items))

    async def cancel(self, task_id: UUID, match: Match) -> Written:
        """Archive a task as canceled, whoever holds it.

        Raises:
            NotFound: there is no such task.
            Conflict: it has ended otherwise, or is not what `match` says.

        """
        item = store.Ending(id=task_id, match=match)

        async def work(connection: Connection) -> list[Task]:
            ended = await store.end(connection, [item], phase=Phase.CANCELED, outcome=Outcome.CANCELED, any_phase=True)
            return list(ended.values())

        def explain(found: Found) -> Written | None:
            if replays.is_cancel_replay(found.task):
                checks.check_queue(found.task, match)
                return Written(task=found.task, replayed=True)
            checks.check_fields(found.task, match)
            return None

        return _as_written(await self._write(task_id, match.delivery, work, explain))

    async def _write(
        self,
        task_id: UUID,
        delivery: int | None,
        work: Work,
        explain: Callable[[Found], Written | None],
        *,
        atomically: bool = False,
        touching: Collection[Window] = (),
    ) -> Task | Written:
        """Write a task; where nothing was written, look why: `explain` raises the reason, or answers a replay.

        It answers None when it sees no reason: then the task has changed in between, and the write is tried again.
        """
        for _ in range(_TRIES):
            if written := await self._writes.run(work, atomically=atomically, touching=touching):
                return written[0]
            found = await self._database.run(lambda connection: store.look_up(connection, task_id, delivery))
            if found is None:
                raise NotFound(Code.TASK_NOT_FOUND, f"there is no task {task_id}")
            if (answer := explain(found)) is not None:
                # The process that wrote it may have died before it told anybody.
                await self._writes.tell([answer.task])
                await self._writes.doubt(touching)
                return answer
        raise Unavailable("the task keeps changing; try again")


class _Tracked:
    """Work that remembers whether the answer of one of its runs was lost."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.may_have_happened = False

    async def __call__(self, connection: Connection) -> Sequence[Task]:
        try:
            return await self._work(connection)
        except Exception as error:
            self.may_have_happened |= meaning(error) is Meaning.LOST
            raise


async def _find(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Task]:
    return {task_id: entry.task for task_id, entry in (await get(connection, ids, Include())).items()}


def _group(write: Callable[[Connection, Sequence[_T]], Awaitable[dict[UUID, Task]]], items: Sequence[_T]) -> Work:
    """Make work of a statement over a group of items."""

    async def work(connection: Connection) -> list[Task]:
        return list((await write(connection, items)).values())

    return work


def _as_written(answer: Task | Written) -> Written:
    return answer if isinstance(answer, Written) else Written(task=answer)


def _hash(verb: str, *request: object) -> bytes:
    """Hash a decoded request, contents included."""
    return blake2b(msgspec.msgpack.encode((verb, request)), digest_size=16).digest()
