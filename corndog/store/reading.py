"""One function for each statement that only reads."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

from corndog.domain.listing import Entry, Filter, Include, Place
from corndog.domain.task import Content, Run
from corndog.store import rows
from corndog.store.engine import Connection
from corndog.store.statements import load


async def get(connection: Connection, ids: Sequence[UUID], include: Include) -> dict[UUID, Entry]:
    """Read tasks, live or archived."""
    read = await connection.fetch(load("get"), list(ids), include.payload, include.result)
    entries = [rows.entry(row) for row in read]
    return {entry.task.id: entry for entry in entries}


async def page(connection: Connection, wanted: Filter, after: Place, limit: int, include: Include) -> list[Entry]:
    """List tasks by submit time and id."""
    state = wanted.current_state
    if wanted.archived and wanted.phase is not None:
        # The state of an ended task is its phase, and states have an index: few failed ones among many are found.
        if state not in {None, wanted.phase}:
            return []
        state = wanted.phase
    table = "archived_tasks" if wanted.archived else "tasks"
    arguments = (
        wanted.queue,
        state,
        wanted.phase,
        wanted.kind,
        wanted.worker_id,
        wanted.submitted_after,
        wanted.submitted_before,
        include.payload,
        after.submit_time,
        after.id,
        limit,
        include.result,
    )
    if wanted.job_id is None:
        read = await connection.fetch(load("list", table=table), *arguments)
    else:
        read = await connection.fetch(load("list_of_job", table=table), *arguments, wanted.job_id)
    return [rows.entry(row) for row in read]


async def content(
    connection: Connection, task_id: UUID, which: Literal["payloads", "results"]
) -> tuple[bool, Content | None]:
    """Read a task's payload or result: whether there is such a task, and what it has."""
    row = await connection.fetchrow(load("content", table=which), task_id)
    return row is not None, None if row is None else rows.content(tuple(row))


async def runs(connection: Connection, task_id: UUID) -> list[Run]:
    """List the deliveries of a task, in their order."""
    return [rows.run(row) for row in await connection.fetch(load("runs"), task_id)]


async def counts(connection: Connection, queue: str | None = None) -> list[tuple[str, str, int]]:
    """Count the live tasks by queue and state."""
    read = await (connection.fetch(load("counts")) if queue is None else connection.fetch(load("queue_counts"), queue))
    return [(row[0], row[1], row[2]) for row in read]


async def now(connection: Connection) -> datetime:
    """Read the database's clock."""
    time: datetime = await connection.fetchval(load("now"))
    return time


async def oldest_overdue(connection: Connection) -> tuple[datetime, datetime] | None:
    """Tell when the longest overdue hold was due, and the time it is."""
    row = await connection.fetchrow(load("oldest_overdue"))
    return None if row is None else (row[0], row[1])
