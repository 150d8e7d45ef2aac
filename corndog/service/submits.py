"""The use case of submitting tasks."""

from collections.abc import Mapping, Sequence
from itertools import islice
from uuid import UUID

import msgspec

from corndog.domain import checks
from corndog.domain.errors import Conflict
from corndog.domain.keys import Kept, Key, Made
from corndog.domain.listing import Include
from corndog.domain.task import NewTask, Task
from corndog.service.groups import GROUP_SIZE, Group, bytes_of
from corndog.service.ids import NewId
from corndog.service.keys import Keys, earlier_of
from corndog.service.news import ready_among
from corndog.service.writes import Writes
from corndog.store import tasks as store
from corndog.store.engine import Connection
from corndog.store.keys import find as find_keys
from corndog.store.reading import get


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a submit under a key: its tasks in order, as they are now; None where one is purged.

    `answer` is what else was answered, and `replayed` tells that an earlier request had done it already.
    """

    ids: Sequence[UUID]
    tasks: Sequence[Task | None]
    answer: bytes | None = None
    replayed: bool = False


class Submits:
    """Submits tasks."""

    def __init__(self, writes: Writes, new_id: NewId, keys: Keys, group_size: int = GROUP_SIZE) -> None:
        self._writes = writes
        self._new_id = new_id
        self._keys = keys
        self._group_size = group_size
        self._together = Group(
            "submit",
            self._submit_together,
            size=group_size,
            number_of=len,
            bytes_of=lambda items: sum(bytes_of(item.new.payload) for item in items),
        )
        self._once_together = Group(
            "submit-once",
            self._submit_each_once,
            size=group_size,
            key_of=lambda item: item.key and item.key.text,
            bytes_of=lambda item: bytes_of(item.new.payload),
        )

    async def submit(self, new: NewTask) -> Task:
        """Submit a task.

        Raises:
            Invalid: it breaks a rule.

        """
        [task] = await self.submit_all([new])
        return task

    async def submit_all(self, news: Sequence[NewTask]) -> list[Task]:
        """Submit tasks, all or none, first in first.

        Raises:
            Invalid: one of them breaks a rule.

        """
        items = self._items(news)
        # What fills a group by itself need not keep others waiting.
        return await (self._submit(items) if len(items) >= self._group_size else self._together(items))

    async def _submit_together(self, asked: Sequence[Sequence[store.Submission]]) -> list[list[Task]]:
        """Submit what several requests ask for, by one statement."""
        tasks = iter(await self._submit([item for items in asked for item in items]))
        return [list(islice(tasks, len(items))) for items in asked]

    async def _submit(self, items: Sequence[store.Submission]) -> list[Task]:
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

        return list(await self._writes.run(work, touching={item.new.window for item in items}))

    async def submit_once(self, new: NewTask, key: Key) -> Submitted:
        """Submit a task unless that was done under this key before.

        Raises:
            Invalid: it breaks a rule.
            Conflict: the key was used for another request.

        """
        [item] = self._items([new])
        item = msgspec.structs.replace(item, key=key)
        while (submitted := await self._once_together(item)) is None:
            pass  # The key's time came between two looks at it, and it is free.
        if isinstance(submitted, Conflict):
            raise submitted
        return submitted

    async def _submit_each_once(self, items: Sequence[store.Submission]) -> list[Submitted | Conflict | None]:
        """Submit tasks, each under its key; None where that was taken and is free again."""
        outcomes: list[Submitted | Conflict | None] = []

        async def work(connection: Connection) -> list[Task]:
            written = await store.submit(connection, items, self._keys.ttl)
            taken = [item.key.text for item in items if item.key and item.id not in written]
            kept = await find_keys(connection, taken) if taken else {}
            known = await _find(connection, [task_id for one in kept.values() for task_id in one.made.task_ids])
            outcomes[:] = [_once(item, written | known, kept) for item in items]
            return [*written.values(), *ready_among(known.values())]

        await self._writes.run(work, touching={item.new.window for item in items})
        return outcomes

    async def submit_all_once(self, news: Sequence[NewTask], key: Key, answer: bytes | None = None) -> Submitted:
        """Submit tasks, at least one, unless that was done under this key before; `answer` is kept with the key.

        Raises:
            Invalid: one of them breaks a rule.
            Conflict: the key was used for another request.

        """
        items = self._items(news)
        made = Made(task_ids=tuple(item.id for item in items), answer=answer)
        submitted = Submitted(ids=(), tasks=())

        async def work(connection: Connection) -> list[Task]:
            nonlocal submitted
            if (earlier := await self._keys.once(connection, key, made)) is None:
                known = await store.submit(connection, items)
                submitted = _submitted(made, known, replayed=False)
                return list(known.values())
            known = await _find(connection, earlier.made.task_ids)
            submitted = _submitted(earlier.made, known, replayed=earlier.replayed)
            return ready_among(known.values())

        await self._writes.run(work, atomically=True, touching={new.window for new in news})
        return submitted

    async def find_once(self, key: Key) -> Submitted | None:
        """Find what was submitted under a key, for a request of which nothing can be submitted.

        Raises:
            Conflict: the key was used for another request.

        """
        submitted: Submitted | None = None

        async def work(connection: Connection) -> list[Task]:
            nonlocal submitted
            if (earlier := await self._keys.look(connection, key)) is None:
                return []
            known = await _find(connection, earlier.made.task_ids)
            submitted = _submitted(earlier.made, known, replayed=True)
            return ready_among(known.values())

        await self._writes.run(work)
        return submitted

    def _items(self, news: Sequence[NewTask]) -> list[store.Submission]:
        for new in news:
            checks.check_new(new)
        return [store.Submission(self._new_id(), new) for new in news]


def _once(item: store.Submission, known: Mapping[UUID, Task], kept: Mapping[str, Kept]) -> Submitted | Conflict | None:
    assert item.key
    made = Made(task_ids=(item.id,))
    if item.key.text not in kept:
        return _submitted(made, known, replayed=False) if item.id in known else None
    try:
        earlier = earlier_of(kept[item.key.text], item.key, made)
    except Conflict as refusal:
        return refusal
    return _submitted(earlier.made, known, replayed=earlier.replayed)


def _submitted(made: Made, known: Mapping[UUID, Task], *, replayed: bool) -> Submitted:
    tasks = [known.get(task_id) for task_id in made.task_ids]
    return Submitted(ids=made.task_ids, tasks=tasks, answer=made.answer, replayed=replayed)


async def _find(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Task]:
    return {task_id: entry.task for task_id, entry in (await get(connection, ids, Include())).items()}
