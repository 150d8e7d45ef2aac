"""The use case of reviving ended tasks."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from corndog.domain import replays
from corndog.domain.errors import Code, Conflict, CorndogError
from corndog.domain.listing import Include
from corndog.domain.revival import revival
from corndog.domain.task import Phase, Task, Window
from corndog.service.ids import NewId
from corndog.service.reading import Reading
from corndog.service.writes import Write, Writes, Written
from corndog.store import jobs as job_store
from corndog.store import tasks as store
from corndog.store.engine import Connection
from corndog.store.rows import Found


class Revivals:
    """Makes failed and canceled tasks live again."""

    def __init__(self, writes: Writes, reading: Reading, new_id: NewId) -> None:
        self._writes = writes
        self._reading = reading
        self._new_id = new_id

    async def revive(self, task_id: UUID) -> Written:
        """Revive a task with a full budget: ready at home, or waiting for what is open of its dependencies.

        With it come the tasks of its job that its end has canceled.

        Raises:
            NotFound: there is no such task.
            Conflict: it is completed, or one that it depends on has ended otherwise.

        """
        token = self._new_id()
        touching: set[Window] = set()

        async def alone() -> Task | None:
            async def work(connection: Connection) -> list[Task]:
                return list((await store.revive(connection, {task_id: 0}, token)).values())

            return next(iter(await self._writes.run(work)), None)

        async def together(found: Found) -> Task | None:
            job_id = found.task.job_id
            assert job_id

            async def work(connection: Connection) -> list[Task]:
                tasks = await locked_tasks(connection, job_id)
                if task_id not in tasks or tasks[task_id].phase not in {Phase.FAILED, Phase.CANCELED}:
                    return []
                written = await revive_in_job(connection, job_id, tasks, [task_id], token, touching)
                if not any(task.id == task_id for task in written):
                    raise Conflict(
                        Code.PARENT_ENDED,
                        "a task that it depends on has failed or was canceled: revive that",
                        tasks[task_id],
                    )
                await job_store.follow(connection, [job_id])
                return written

            written = await self._writes.run(work, atomically=True, touching=touching)
            return next((task for task in written if task.id == task_id), None)

        def explain(found: Found) -> Written | None:
            if found.write_token == token:
                return Written(task=found.task)
            return Written(task=found.task, replayed=True) if replays.is_revive_replay(found.task) else None

        return await self._writes.one(
            Write(task_id=task_id, alone=alone, together=together, explain=explain, touching=touching)
        )

    async def many(self, ids: Sequence[UUID], *, dry_run: bool = False) -> list[tuple[UUID, Task | CorndogError]]:
        """Revive tasks one after the other, and tell what became of each; `dry_run` tells how they are instead."""
        return [(task_id, await self._outcome(task_id, dry_run=dry_run)) for task_id in ids]

    async def _outcome(self, task_id: UUID, *, dry_run: bool) -> Task | CorndogError:
        try:
            if not dry_run:
                return (await self.revive(task_id)).task
            task = (await self._reading.get(task_id, Include())).task
            replays.is_revive_replay(task)
        except CorndogError as error:
            return error
        return task


async def locked_tasks(connection: Connection, job_id: UUID) -> dict[UUID, Task]:
    """Read all tasks of a job after taking it for this transaction, its live tasks with it."""
    await job_store.lock(connection, job_id)
    return {task.id: task for task in await job_store.tasks(connection, job_id)}


async def revive_in_job(
    connection: Connection,
    job_id: UUID,
    tasks: Mapping[UUID, Task],
    wanted: Iterable[UUID],
    token: UUID,
    touching: set[Window],
) -> list[Task]:
    """Revive these tasks of a locked job, as far as they may be, and what comes with them; answer all written tasks.

    The stored status of the job is to be followed next.
    """
    plan = revival(tasks, await job_store.edges(connection, job_id), wanted)
    if not plan.waiting_on:
        return []
    written = list((await store.revive(connection, plan.waiting_on, token, of_jobs=True)).values())
    if plan.edges:
        await job_store.change_edges(connection, plan.edges)
    if plan.more:
        written += await job_store.wait_for_more(connection, plan.more)
    await job_store.touch(connection, job_id)
    touching.update(task.window for task in written if task.phase is Phase.READY)
    return written
