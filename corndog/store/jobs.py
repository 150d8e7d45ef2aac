"""One function for each statement about jobs and the dependencies of their tasks."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from corndog.domain.jobs import Edge, Job, JobFilter, JobStatus, NewJob
from corndog.domain.listing import Dependency, Place
from corndog.domain.task import Phase, Task
from corndog.store import rows
from corndog.store.engine import Connection
from corndog.store.statements import load

_STATUS = Job.__struct_fields__.index("status")


async def create(connection: Connection, job_id: UUID, new: NewJob) -> Job:
    """Write a job, without its tasks."""
    row = await connection.fetchrow(load("create_job"), job_id, new.name, len(new.members), new.metadata)
    assert row
    return _job(row)


async def add_edges(connection: Connection, edges: Sequence[Edge]) -> None:
    """Write dependencies between tasks of a new job."""
    await connection.fetch(
        load("add_edges"),
        [edge.child_id for edge in edges],
        [edge.parent_id for edge in edges],
        [edge.run_on_failure for edge in edges],
    )


async def get(connection: Connection, job_id: UUID) -> Job | None:
    """Read a job as it is stored: its status may lag behind its tasks."""
    row = await connection.fetchrow(load("get_job"), job_id)
    return None if row is None else _job(row)


async def page(connection: Connection, wanted: JobFilter, before: Place, limit: int) -> list[Job]:
    """List jobs, the newest first, each with the status that its tasks say."""
    statuses = list(JobStatus) if wanted.status is None else [wanted.status]
    read = await connection.fetch(
        load("list_jobs"),
        [status.value for status in statuses],
        before.submit_time,
        before.id,
        wanted.submitted_after,
        wanted.submitted_before,
        wanted.name,
        limit,
    )
    return [_job(row) for row in read]


async def unfinished(connection: Connection, status: JobStatus, after: Place, limit: int) -> list[Place]:
    """Give the next jobs that are stored under a status, by submit time and id."""
    read = await connection.fetch(load("unfinished_jobs"), status.value, after.submit_time, after.id, limit)
    return [Place(submit_time, job_id) for submit_time, job_id in read]


async def cancel(connection: Connection, job_id: UUID) -> list[Task]:
    """Archive all live tasks of a job as canceled."""
    return [rows.task(row) for row in await connection.fetch(load("cancel_job"), job_id)]


async def parents(connection: Connection, ids: Iterable[UUID], limit: int) -> dict[UUID, dict[str, Dependency]]:
    """Read what tasks depend on, by name; with the results, as long as they are no larger than `limit` together."""
    found: dict[UUID, dict[str, Dependency]] = {}
    for child_id, name, phase, last_error, is_omitted, *content in await connection.fetch(
        load("parents"), list(ids), limit
    ):
        found.setdefault(child_id, {})[name] = Dependency(
            phase=Phase(phase), last_error=last_error, result=rows.content(content), is_omitted=is_omitted
        )
    return found


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


async def follow(connection: Connection, job_ids: Iterable[UUID]) -> list[UUID]:
    """Bring the stored status of jobs to what their tasks say; answers those that others changed meanwhile."""
    return [job_id for [job_id] in await connection.fetch(load("follow_jobs"), list(job_ids))]


async def touch(connection: Connection, job_id: UUID) -> None:
    """Mark a job as changed, so that nobody stores a status that was read before."""
    await connection.fetch(load("touch_job"), job_id)


def _job(row: rows.Row) -> Job:
    return Job(**dict(zip(Job.__struct_fields__, row, strict=True)) | {"status": JobStatus(row[_STATUS])})
