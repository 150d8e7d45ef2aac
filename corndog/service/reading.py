"""The use cases that only look: one task, its contents, listings, counts, health."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal
from uuid import UUID

import msgspec
from msgspec import structs

from corndog.domain.errors import Code, NotFound
from corndog.domain.listing import DEPENDENCIES_MAX, Dependency, Entry, Filter, Include, Place
from corndog.domain.task import Content, Run
from corndog.store import reading as store
from corndog.store.engine import Database
from corndog.store.jobs import parents

OVERDUE_WARNING = timedelta(minutes=1)
"""How long a hold may be overdue before it is worth a warning that nobody sweeps."""


class Page(msgspec.Struct, frozen=True):
    """Some tasks, and where the next page begins; None if there is none."""

    entries: Sequence[Entry]
    following: Place | None


class Reading:
    """Reads tasks and counts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, task_id: UUID, include: Include) -> Entry:
        """Read a task, live or archived.

        Raises:
            NotFound: there is none.

        """
        found = await self._database.run(lambda connection: store.get(connection, [task_id], include))
        if task_id not in found:
            raise _not_found(task_id)
        if include.dependencies:
            [entry] = await self.with_dependencies([found[task_id]])
            return entry
        return found[task_id]

    async def with_dependencies(self, entries: Sequence[Entry]) -> list[Entry]:
        """Add to tasks how those that they depend on ended, and what they left; all results within one limit."""
        ids = [entry.task.id for entry in entries if entry.task.job_id]
        found: Mapping[UUID, Mapping[str, Dependency]] = {}
        if ids:
            found = await self._database.run(lambda connection: parents(connection, ids, DEPENDENCIES_MAX))
        return [structs.replace(entry, dependencies=found.get(entry.task.id, {})) for entry in entries]

    async def content(self, task_id: UUID, which: Literal["payload", "result"]) -> Content:
        """Read a task's payload or result alone.

        Raises:
            NotFound: there is no such task, or it has none.

        """
        table: Literal["payloads", "results"] = "payloads" if which == "payload" else "results"
        exists, content = await self._database.run(lambda connection: store.content(connection, task_id, table))
        if not exists:
            raise _not_found(task_id)
        if content is None:
            code = Code.PAYLOAD_NOT_FOUND if which == "payload" else Code.RESULT_NOT_FOUND
            raise NotFound(code, f"task {task_id} has no {which}")
        return content

    async def page(self, wanted: Filter, after: Place, limit: int, include: Include) -> Page:
        """List tasks by submit time and id."""
        # One more than asked for tells whether there is a next page.
        entries = await self._database.run(lambda connection: store.page(connection, wanted, after, limit + 1, include))
        if len(entries) <= limit:
            return Page(entries, None)
        last = entries[limit - 1].task
        return Page(entries[:limit], Place(last.submit_time, last.id))

    async def runs(self, task_id: UUID) -> list[Run]:
        """List the deliveries of a task, in their order; the one that holds it is the last.

        Raises:
            NotFound: there is no such task.

        """
        if runs := await self._database.run(lambda connection: store.runs(connection, task_id)):
            return runs
        await self.get(task_id, Include())
        return []

    async def counts(self, queue: str | None = None) -> list[tuple[str, str, int]]:
        """Count live tasks as (queue, state, number); without zeros."""
        return await self._database.run(lambda connection: store.counts(connection, queue))

    async def overdue(self) -> timedelta | None:
        """Tell for how long the oldest hold has been waiting for a sweep; None if that is nothing to warn of.

        Raises:
            Unavailable: at once, if the database does not answer.

        """
        found = await self._database.once(store.oldest_overdue)
        if found is None or found[1] - found[0] <= OVERDUE_WARNING:
            return None
        return found[1] - found[0]


def _not_found(task_id: UUID) -> NotFound:
    return NotFound(Code.TASK_NOT_FOUND, f"there is no task {task_id}")
