"""The use cases that write a task whose end is not at stake: update, release."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

from corndog.domain import checks, replays
from corndog.domain.errors import CorndogError, Unavailable
from corndog.domain.task import Change, Match, Task
from corndog.service.groups import GROUP_SIZE, Group, bytes_of, id_of
from corndog.service.ids import NewId
from corndog.service.requests import hash_of
from corndog.service.writes import Work, Write, Writes, Written, find_each, grouped
from corndog.store import tasks as store
from corndog.store.engine import Connection
from corndog.store.rows import Found
from corndog.store.sqlstates import Meaning, meaning


class Tasks:
    """Moves tasks, and gives them back."""

    def __init__(self, writes: Writes, new_id: NewId, group_size: int = GROUP_SIZE) -> None:
        self._writes = writes
        self._new_id = new_id
        self._update = Group(
            "update",
            self._update_all,
            size=group_size,
            key_of=id_of,
            bytes_of=lambda item: bytes_of(item.change.payload),
        )
        self._release = Group("release", partial(writes.all, store.release), size=group_size, key_of=id_of)

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
        may_have_happened = False

        async def alone() -> Task | None:
            nonlocal may_have_happened
            task, was_lost = await self._update(item)
            may_have_happened |= was_lost
            return task

        def explain(found: Found) -> Written | None:
            if found.write_token == item.token:
                return Written(task=found.task)
            if replays.is_replay(found, match.delivery, request):
                return Written(task=found.task, replayed=True)
            try:
                checks.check_match(found.task, match, parked_too=True)
                checks.check_change(found.task, change)
            except CorndogError:
                if may_have_happened:
                    # Others have written the task since, and an update of an unheld task leaves no history.
                    raise Unavailable("the connection was lost: the update may have happened; read the task") from None
                raise
            return None

        return await self._writes.one(Write(task_id=task_id, delivery=match.delivery, alone=alone, explain=explain))

    async def _update_all(self, items: Sequence[store.Update]) -> list[tuple[Task | None, bool]]:
        """Update tasks; answers for each what was written, and whether a run's answer was lost."""
        work = _Tracked(grouped(store.update, items))
        written = find_each(items, await self._writes.run(work))
        return [(task, work.may_have_happened) for task in written]

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

        return await self._writes.one(
            Write(task_id=task_id, delivery=match.delivery, alone=lambda: self._release(item), explain=explain)
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
            for task in held
        ]
        await self._writes.all(store.release, items)


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
