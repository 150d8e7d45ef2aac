"""One function for each statement about jobs and the dependencies of their tasks."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from corndog.domain.jobs import Edge
from corndog.domain.task import Task
from corndog.store import rows
from corndog.store.engine import Connection
from corndog.store.statements import load


async def lock(connection: Connection, job_id: UUID) -> bool:
    """Take a job and its live tasks for this transaction, the tasks in order of their ids; False if there is no job."""
    if await connection.fetchval(load("lock_job"), job_id) is None:
        return False
    await connection.fetch(load("lock_job_tasks"), job_id)
    return True


async def tasks(connection: Connection, job_id: UUID) -> list[Task]:
    """Read all tasks of a job, live and archived, in order of their ids."""
    return [rows.task(row) for row in await connection.fetch(load("job_tasks"), job_id)]


async def edges(connection: Connection, job_id: UUID) -> list[Edge]:
    """Read the dependencies of a job's tasks."""
    return [
        Edge(child_id=child, parent_id=parent, done=done, run_on_failure=runs)
        for child, parent, done, runs in await connection.fetch(load("job_edges"), job_id)
    ]


async def change_edges(connection: Connection, changed: Sequence[Edge]) -> None:
    """Set whether these dependencies are done."""
    await connection.fetch(
        load("change_edges"),
        [edge.child_id for edge in changed],
        [edge.parent_id for edge in changed],
        [edge.done for edge in changed],
    )


async def wait_for_more(connection: Connection, more: Mapping[UUID, int]) -> list[Task]:
    """Let blocked tasks wait for so many more others."""
    written = await connection.fetch(load("wait_for_more"), list(more), list(more.values()))
    return [rows.task(row) for row in written]


async def follow(connection: Connection, job_ids: Iterable[UUID]) -> None:
    """Bring the stored status of jobs to what their tasks say."""
    await connection.fetch(load("follow_jobs"), list(job_ids))


async def touch(connection: Connection, job_id: UUID) -> None:
    """Mark a job as changed, so that nobody stores a status that was read before."""
    await connection.fetch(load("touch_job"), job_id)
