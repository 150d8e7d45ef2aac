"""The one way to write tasks: one, many, or all or none of them; and why one was not written."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from corndog.domain.errors import Code, Conflict, CorndogError, NotFound, Unavailable
from corndog.domain.task import Task, Window
from corndog.service.ends import Ends
from corndog.service.groups import GROUP_SIZE, Group
from corndog.service.news import News
from corndog.store import tasks as store
from corndog.store.engine import Connection, Database
from corndog.store.rows import Found
from corndog.store.sqlstates import Meaning, meaning

Work: TypeAlias = Callable[[Connection], Awaitable[Sequence[Task]]]
"""Work that answers every task it has written."""


class _WithId(Protocol):
    @property
    def id(self) -> UUID: ...


_Item = TypeVar("_Item", bound=_WithId)
Statement: TypeAlias = Callable[[Connection, Sequence[_Item]], Awaitable[dict[UUID, Task]]]
"""A statement over a group of items: it answers what it has written by id."""

WorkOnSome: TypeAlias = Callable[[Connection, Sequence[int], set[Window]], Awaitable[Ends]]
"""Work on the items at these places of a batch, which adds the windows in which it makes tasks ready."""

_TRIES = 20
"""How often a write is tried on a task that changes each time between the write and the look at why it failed."""


class _Refused(Exception):
    """Not all of a batch could be written, and so none of it is."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a write; `replayed` where an earlier request had done it already."""

    task: Task
    next_task_ids: Sequence[UUID] = ()
    replayed: bool = False


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """A write of one task.

    `alone` writes it if no other task is concerned, and answers the task, or None if it was not written; `together`
    does the same to a task of a job with the others that are. `explain` says why nothing was written: it raises the
    refusal, or answers a replay; or answers None when it sees no reason. `touching` has the windows in which tasks may
    have become ready.
    """

    task_id: UUID
    delivery: int | None = None
    alone: Callable[[], Awaitable[Task | None]]
    together: Callable[[Found], Awaitable[Task | None]] | None = None
    explain: Callable[[Found], Written | None]
    touching: Collection[Window] = ()


class Writes:
    """Runs work that writes tasks, and tells the news of it after the commit and before the answer."""

    def __init__(self, database: Database, news: News, group_size: int = GROUP_SIZE) -> None:
        self.news = news
        self._database = database
        self._sought = Group("look-up", self._look_up_all, size=group_size)

    async def run(
        self,
        work: Work,
        *,
        atomically: bool = False,
        touching: Collection[Window] = (),
    ) -> Sequence[Task]:
        """Run work, each statement by itself or all of them `atomically`.

        `touching` names the windows in which tasks may become ready, as far as they are known before; the work adds
        those that turn up. If the outcome of the commit stays unknown, they are forgotten.
        """
        run = self._database.transaction if atomically else self._database.run
        runs = conflicts = 0

        async def counted(connection: Connection) -> Sequence[Task]:
            nonlocal runs, conflicts
            runs += 1
            try:
                return await work(connection)
            except Exception as error:
                conflicts += meaning(error) is Meaning.CONFLICT
                raise

        try:
            written = await run(counted)
        except _Refused:
            if runs > 1 + conflicts:
                await self.news.doubt(touching)
            raise
        except BaseException as error:
            if isinstance(error, Unavailable) or not isinstance(error, CorndogError):
                await self.news.doubt(touching)
            raise
        if runs > 1 + conflicts:
            # A run whose answer was lost may have made others ready than the last one answers.
            await self.news.doubt(touching)
        await self.news.tell(written)
        return written

    async def one(self, write: Write) -> Written:
        """Write a task; where nothing was written, look why, and try again if there is no reason any more.

        Raises:
            NotFound: there is no such task.
            CorndogError: what `explain` raises.

        """
        task = await write.alone()
        return await self._again(write) if task is None else Written(task=task)

    async def many(self, writes: Sequence[Write]) -> list[Written | Exception]:
        """Write tasks side by side, but one task's writes one after the other; answer what has become of each."""
        by_task: dict[UUID, list[int]] = {}
        for place, write in enumerate(writes):
            by_task.setdefault(write.task_id, []).append(place)
        done: dict[int, Written | Exception] = {}

        async def go_on(places: Sequence[int]) -> None:
            for place in places:
                try:
                    done[place] = await (self._again if place in tried else self.one)(writes[place])
                except Exception as error:  # noqa: BLE001 - whatever it is, it is this item's answer
                    done[place] = error

        # Most are written at the first try, which takes no task of the loop for each.
        tried = dict.fromkeys(places[0] for places in by_task.values())
        firsts = await asyncio.gather(*(writes[place].alone() for place in tried), return_exceptions=True)
        for place, task in zip(tried, firsts, strict=True):
            if isinstance(task, Task):
                done[place] = Written(task=task)
            elif isinstance(task, Exception):
                done[place] = task
        left = [[place for place in places if place not in done] for places in by_task.values()]
        await asyncio.gather(*(go_on(places) for places in left if places))
        return [done[place] for place in range(len(writes))]

    async def _again(self, write: Write) -> Written:
        """Look why a task was not written, and try again if there is no reason any more."""
        for _ in range(_TRIES):
            found = await self._look_up(write)
            if (answer := await self._explain(write, found)) is not None:
                return answer
            task = await (write.together(found) if write.together and found.task.job_id else write.alone())
            if task is not None:
                return Written(task=task)
        raise Unavailable("the task keeps changing; try again")

    async def all_or_none(self, writes: Sequence[Write], work: WorkOnSome) -> list[Written]:
        """Write tasks in one transaction; those that were written before, by the same requests, stay as they are.

        Raises:
            CorndogError: one of them is refused, which its `field` names, and nothing was written.

        """
        await self._check_different(writes)
        touching = {window for write in writes for window in write.touching}
        before: dict[int, Written] = {}
        for _ in range(_TRIES):
            left = [place for place in range(len(writes)) if place not in before]
            own: dict[UUID, Task] = {}

            async def attempt(
                connection: Connection, left: list[int] = left, own: dict[UUID, Task] = own
            ) -> list[Task]:
                ends = await work(connection, left, touching)
                own.clear()
                own.update(ends.own)
                if any(writes[place].task_id not in own for place in left):
                    raise _Refused
                return [*own.values(), *ends.others]

            try:
                await self.run(attempt, atomically=True, touching=touching)
            except _Refused:
                missing = [place for place in left if writes[place].task_id not in own]
                # The look-ups go in groups; all are made, so that the first refusal by place is told.
                reasons = await asyncio.gather(
                    *(self._why(writes[place], place) for place in missing), return_exceptions=True
                )
                for place, reason in zip(missing, reasons, strict=True):
                    if isinstance(reason, BaseException):
                        raise reason from None
                    if reason is not None:
                        before[place] = reason
                continue
            return [before.get(place) or Written(task=own[write.task_id]) for place, write in enumerate(writes)]
        raise Unavailable("the tasks keep changing; try again")

    async def _check_different(self, writes: Sequence[Write]) -> None:
        """Refuse a batch that names a task twice: once the first item is written, the other doesn't match."""
        places: dict[UUID, int] = {}
        for place, write in enumerate(writes):
            if (first := places.setdefault(write.task_id, place)) != place:
                with _naming(place):
                    found = await self._look_up(write)
                    raise Conflict(Code.OTHER_REQUEST, f"tasks[{first}] is about this task, too", found.task)

    async def _why(self, write: Write, place: int) -> Written | None:
        """Tell why an item of a batch was not written; None if there is no reason any more."""
        with _naming(place):
            return await self._explain(write, await self._look_up(write))

    async def _look_up(self, write: Write) -> Found:
        found = await self._sought(store.Sought(write.task_id, write.delivery))
        if found is None:
            raise NotFound(Code.TASK_NOT_FOUND, f"there is no task {write.task_id}")
        return found

    async def _look_up_all(self, asked: Sequence[store.Sought]) -> list[Found | None]:
        return await self._database.run(lambda connection: store.look_up(connection, asked))

    async def _explain(self, write: Write, found: Found) -> Written | None:
        if (answer := write.explain(found)) is not None:
            # The process that wrote it may have died before it told anybody.
            await self.news.tell([answer.task])
            await self.news.doubt(write.touching)
        return answer

    async def all(self, statement: Statement[_Item], items: Sequence[_Item]) -> list[Task | None]:
        """Write items by one statement, in order of their ids; answers the task of each, None where it was refused."""
        written = await self.run(grouped(statement, items))
        return find_each(items, written)


def grouped(statement: Statement[_Item], items: Sequence[_Item]) -> Work:
    """Make work of a statement over items that have different ids: all groups lock rows in the same order."""
    in_order = sorted(items, key=lambda item: item.id)

    async def work(connection: Connection) -> list[Task]:
        return list((await statement(connection, in_order)).values())

    return work


@contextmanager
def _naming(place: int) -> Iterator[None]:
    """Name the item of a batch that is refused."""
    try:
        yield
    except CorndogError as error:
        if not isinstance(error, Unavailable):
            error.field = f"tasks[{place}]"
        raise


def find_each(items: Iterable[_Item], written: Iterable[Task]) -> list[Task | None]:
    """Find for each item the task that was written for it."""
    by_id = {task.id: task for task in written}
    return [by_id.get(item.id) for item in items]
