"""Jobs and ended tasks as retention finds them: made by the use cases, then set back in time."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from corndog.domain.jobs import JobStatus, Member, NewJob
from corndog.domain.task import Failure, Match, NewTask, Phase, Task
from corndog.store import jobs as job_store
from tests.store.house import TEXT, House, held_match

DAY = timedelta(days=1)


class Job(msgspec.Struct, frozen=True):
    """A job of the tests: its id, and those of its tasks by their names."""

    id: UUID
    tasks: Mapping[str, UUID]


async def end(house: House, task_id: UUID, phase: Phase) -> Task:
    """End a task that is ready, held or parked; as a worker does it, but for a cancellation."""
    if phase is Phase.CANCELED:
        return (await house.endings.cancel(task_id, Match())).task
    [task] = [entry.task for entry in await house.claim(await _queue(house, task_id), worker_id="w")]
    assert task.id == task_id
    if phase is Phase.COMPLETED:
        return (await house.endings.complete(task_id, held_match(task), TEXT, [])).task
    return (await house.endings.fail(task_id, held_match(task), Failure(error="e", retryable=False))).task


async def _queue(house: House, task_id: UUID) -> str:
    [row] = await house.rows("SELECT queue FROM tasks WHERE id = $1", task_id)
    return str(row["queue"])


async def ended_task(house: House, phase: Phase, ago: timedelta, **asked: Any) -> Task:  # noqa: ANN401
    """Make a task that ended so long ago, with a payload, a delivery that was given back, and all that its end left."""
    [task] = await house.submit(payload=TEXT, queue=f"{phase} {ago}", **asked)
    [entry] = await house.claim(task.queue, worker_id="w")
    await house.tasks.release(task.id, held_match(entry.task), None)
    task = await end(house, task.id, phase)
    await set_back(house, [task.id], ago)
    return task


async def set_back(house: House, ids: Iterable[UUID], ago: timedelta) -> None:
    """Let tasks have ended so long ago."""
    await house.rows(
        "UPDATE archived_tasks SET update_time = statement_timestamp() - $2::interval WHERE id = ANY($1::uuid[])",
        list(ids),
        ago,
    )


async def new_job(house: House, graph: Mapping[str, Sequence[str]]) -> Job:
    """Make a job of tasks that depend on others."""
    new = [
        Member(name=name, new=NewTask(queue=name, payload=TEXT), depends_on=parents) for name, parents in graph.items()
    ]
    made = await house.jobs.submit(NewJob(members=new))
    return Job(made.id, made.task_ids)


async def follow(house: House, job: Job) -> None:
    """Store what a job's tasks say."""
    await house.database.run(lambda connection: job_store.follow(connection, [job.id]))


async def end_job(house: House, job: Job, ago: timedelta, status: JobStatus = JobStatus.COMPLETED) -> None:
    """Store that a job whose tasks have all ended did so, so long ago."""
    await follow(house, job)
    await set_back(house, job.tasks.values(), ago)
    [row] = await house.rows(
        "UPDATE jobs SET end_time = end_time - $2::interval, update_time = update_time - $2::interval"
        " WHERE id = $1 RETURNING status",
        job.id,
        ago,
    )
    assert row["status"] == status


async def traces(house: House, ids: Iterable[UUID]) -> dict[str, int]:
    """Count what is known of tasks, by table; without zeros."""
    wanted = set(ids)
    found = {
        table: sum(not wanted.isdisjoint(row.values()) for row in _hashable(rows))
        for table, rows in (await house.everything()).items()
    }
    return {table: number for table, number in found.items() if number}


def _hashable(rows: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    return ({name: value for name, value in row.items() if isinstance(value, UUID)} for row in rows)
