"""The use cases that write a task whose end is not at stake: update, release."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from corndog.domain import checks, replays
from corndog.domain.errors import CorndogError, Unavailable
from corndog.domain.task import Change, Match, Task
from corndog.service.ids import NewId
from corndog.service.requests import hash_of
from corndog.service.writes import Work, Write, Writes, Written
from corndog.store import tasks as store
from corndog.store.engine import Connection
from corndog.store.rows import Found
from corndog.store.sqlstates import Meaning, meaning

_T = TypeVar("_T")


class Tasks:
    """Moves tasks, and gives them back."""

    def __init__(self, writes: Writes, new_id: NewId) -> None:
        self._writes = writes
        self._new_id = new_id

    async def update(self, task_id: UUID, match: Match, change: Change) -> Written:
        """Move a task to a new state, or write its progress.

        Raises:
            Invalid: neither `delivery` nor `current_state` is given, or a clock would end where no worker looks.
            NotFound: there is no such task.
            Conflict: the task is not what `match` says.
            Unavailable: an answer was lost, and what has become of the task since doesn't tell whether this happened.

        """
        checks.check_given(match)
        request = hash_of("update", match, change)
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

        work = _Tracked(grouped(store.update, [item]))
        return await self._one(task_id, match, work, explain)

    async def release(self, task_id: UUID, match: Match, delay: timedelta | None) -> Written:
        """Give a held task back, at once or after a delay; no attempt is used up.

        Raises:
            NotFound: there is no such task.
            Conflict: this delivery does not hold the task, or the task is not what `match` says.

        """
        request = hash_of("release", match, delay)
        item = store.Release(id=task_id, match=match, delay=delay, request=request, token=self._new_id())

        def explain(found: Found) -> Written | None:
            if found.write_token == item.token:
                return Written(task=found.task)
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, replayed=True)
            checks.check_match(found.task, match, parked_too=False)
            return None

        return await self._one(task_id, match, grouped(store.release, [item]), explain)

    async def _one(
        self, task_id: UUID, match: Match, work: Work, explain: Callable[[Found], Written | None]
    ) -> Written:
        return await self._writes.one(
            Write(task_id=task_id, delivery=match.delivery, alone=lambda: self._writes.run(work), explain=explain)
        )

    async def give_back(self, held: Sequence[Task]) -> None:
        """Release tasks that were handed out to a caller who has gone."""
        items = [
            store.Release(
                id=task.id,
                match=(match := Match(delivery=task.delivery)),
                delay=None,
                request=hash_of("release", match, None),
                token=self._new_id(),
            )
            for task in sorted(held, key=lambda task: task.id)
        ]
        await self._writes.run(grouped(store.release, items))


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


def grouped(write: Callable[[Connection, Sequence[_T]], Awaitable[dict[UUID, Task]]], items: Sequence[_T]) -> Work:
    """Make work of a statement over a group of items."""

    async def work(connection: Connection) -> list[Task]:
        return list((await write(connection, items)).values())

    return work
