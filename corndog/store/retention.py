"""One function for each statement that deletes what was kept long enough.

They can be run again after a lost connection: what is gone is not found again.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from corndog.domain.task import Phase
from corndog.store.engine import Connection
from corndog.store.statements import load


class Ended(NamedTuple):
    """When a task or a job ended, and which: a place in the order in which they are purged."""

    time: datetime
    id: UUID


START = Ended(datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))
"""A place before all others."""


class EndedJob(msgspec.Struct, frozen=True):
    """A job that seems to be due, and how many tasks it has."""

    place: Ended
    task_count: int


async def tasks(connection: Connection, phase: Phase, kept: timedelta, after: Ended, batch: int) -> list[Ended]:
    """Delete a batch of tasks of no job, in the order in which they ended."""
    return [Ended(*row) for row in await connection.fetch(load("purge_tasks"), phase.value, kept, *after, batch)]


async def find_jobs(connection: Connection, phase: Phase, kept: timedelta, after: Ended, batch: int) -> list[EndedJob]:
    """Find a batch of jobs that seem to be due, in the order in which they ended."""
    found = await connection.fetch(load("purge_find_jobs"), phase.value, kept, *after, batch)
    return [EndedJob(Ended(time, job_id), task_count) for time, job_id, task_count in found]


async def lock_jobs(connection: Connection, ids: Collection[UUID], phase: Phase, kept: timedelta) -> list[UUID]:
    """Take those of these jobs for this transaction that are due and that nobody else has taken."""
    return [row[0] for row in await connection.fetch(load("purge_lock_jobs"), list(ids), phase.value, kept)]


async def check_jobs(connection: Connection, ids: Collection[UUID]) -> list[UUID]:
    """Tell which of these jobs have ended as their stored status says."""
    return [row[0] for row in await connection.fetch(load("purge_check_jobs"), list(ids))]


async def job_tasks(connection: Connection, job_ids: Collection[UUID], batch: int) -> int:
    """Delete a batch of the tasks of these jobs, and tell how many."""
    number: int = await connection.fetchval(load("purge_job_tasks"), list(job_ids), batch)
    return number


async def jobs(connection: Connection, ids: Collection[UUID]) -> None:
    """Delete these jobs."""
    await connection.fetch(load("purge_jobs"), list(ids))
