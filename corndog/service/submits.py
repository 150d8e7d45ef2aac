"""The use case of submitting tasks."""

from collections.abc import Sequence
from uuid import UUID

from corndog.domain import checks
from corndog.domain.listing import Include
from corndog.domain.task import NewTask, Task
from corndog.service.ids import NewId
from corndog.service.writes import Writes
from corndog.store import tasks as store
from corndog.store.engine import Connection
from corndog.store.reading import get


class Submits:
    """Submits tasks."""

    def __init__(self, writes: Writes, new_id: NewId) -> None:
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


async def _find(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Task]:
    return {task_id: entry.task for task_id, entry in (await get(connection, ids, Include())).items()}
