"""The use cases of jobs: submit, read, list, cancel, revive."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from uuid import UUID

import msgspec

from corndog.domain.errors import Code, Conflict, NotFound
from corndog.domain.jobs import FINAL, Edge, Job, JobFilter, JobStatus, NewJob, OnParentFailure, in_order, status_of
from corndog.domain.keys import Key, Made
from corndog.domain.listing import Place
from corndog.domain.revival import is_ended_by_job
from corndog.domain.task import CanceledBy, Membership, Task, Window
from corndog.service.ids import NewId
from corndog.service.keys import Earlier, Keys
from corndog.service.news import ready_among
from corndog.service.revivals import locked_tasks, revive_in_job
from corndog.service.writes import Writes
from corndog.store import jobs as store
from corndog.store import tasks as task_store
from corndog.store.engine import Connection, Database


class SubmittedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the submit of a job: the job as it is now, None if it is purged, and the ids of its tasks by name.

    `replayed` tells that an earlier request under the same key had submitted it already.
    """

    id: UUID
    job: Job | None
    task_ids: Mapping[str, UUID]
    replayed: bool = False


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A job with all its tasks, in order of their ids, and their dependencies."""

    job: Job
    tasks: Sequence[Task]
    edges: Sequence[Edge]


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs, and where the next page begins; None if there is none."""

    jobs: Sequence[Job]
    following: Place | None


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The job as it is now; `replayed` where there was nothing left to do."""

    job: Job
    replayed: bool


class Jobs:
    """Submits jobs, and reads and writes them as wholes."""

    def __init__(self, database: Database, writes: Writes, new_id: NewId, keys: Keys) -> None:
        self._database = database
        self._writes = writes
        self._new_id = new_id
        self._keys = keys

    async def submit(self, new: NewJob, key: Key | None = None) -> SubmittedJob:
        """Make a job and all its tasks in one transaction: its roots are ready, the others wait for their parents.

        Under a key it is made once.

        Raises:
            Invalid: its graph, or a task, breaks a rule; all that do are told.
            Conflict: the key was used for another request.

        """
        in_id_order = in_order(new)
        job_id = self._new_id()
        # In order of their ids, by which transactions take them, parents come before their children.
        ids = dict(
            zip((member.name for member in in_id_order), sorted(self._new_id() for _ in in_id_order), strict=True)
        )
        # In the order given they are claimed.
        submissions = [
            task_store.Submission(
                ids[member.name],
                member.new,
                Membership(job_id=job_id, name=member.name, waiting_on=len(member.depends_on)),
            )
            for member in new.members
        ]
        edges = [
            Edge(
                child_id=ids[member.name],
                parent_id=ids[name],
                done=False,
                run_on_failure=member.on_parent_failure is OnParentFailure.RUN,
            )
            for member in in_id_order
            for name in member.depends_on
        ]
        task_ids = {member.name: ids[member.name] for member in new.members}
        made = Made(job_id=job_id, answer=msgspec.msgpack.encode(task_ids))
        submitted: SubmittedJob | None = None
        is_rerun = False

        async def work(connection: Connection) -> list[Task]:
            nonlocal submitted, is_rerun
            earlier = await self._keys.once(connection, key, made) if key else None
            if earlier is None and is_rerun and not key and await store.get(connection, job_id):
                earlier = Earlier(made, replayed=False)
            is_rerun = True
            if earlier is not None:
                submitted, tasks = await _find(connection, earlier)
                return ready_among(tasks)
            job = await store.create(connection, job_id, new)
            submitted = SubmittedJob(id=job_id, job=job, task_ids=task_ids)
            written = await task_store.submit(connection, submissions)
            if edges:
                await store.add_edges(connection, edges)
            return list(written.values())

        roots = {member.new.window for member in new.members if not member.depends_on}
        await self._writes.run(work, atomically=True, touching=roots)
        assert submitted
        return submitted

    async def get(self, job_id: UUID) -> Graph:
        """Read a job with all its tasks, which say its status.

        Raises:
            NotFound: there is none.

        """

        async def work(connection: Connection) -> Graph | None:
            job = await store.get(connection, job_id)
            if job is None:
                return None
            edges = await store.edges(connection, job_id)
            tasks = await store.tasks(connection, job_id)
            # A job is purged with all its tasks at once: where they are there, what was read before them was whole.
            return Graph(job=_told(job, tasks), tasks=tasks, edges=edges) if tasks else None

        graph = await self._database.run(work)
        if graph is None:
            raise _not_found(job_id)
        return graph

    async def page(self, wanted: JobFilter, before: Place, limit: int) -> JobPage:
        """List jobs, the newest first."""
        jobs = await self._database.run(lambda connection: store.page(connection, wanted, before, limit + 1))
        if len(jobs) <= limit:
            return JobPage(jobs, None)
        return JobPage(jobs[:limit], Place(jobs[limit - 1].submit_time, jobs[limit - 1].id))

    async def cancel(self, job_id: UUID) -> Changed:
        """Archive all live tasks of a job as canceled, whoever holds them.

        Raises:
            NotFound: there is no such job.
            Conflict: it has ended otherwise.

        """

        async def cancel(connection: Connection, tasks: Mapping[UUID, Task]) -> list[Task]:
            status = status_of(tasks.values())
            was_canceled = status is JobStatus.CANCELED or any(
                task.canceled_by is CanceledBy.JOB for task in tasks.values()
            )
            if tasks and status in FINAL and not was_canceled:
                raise Conflict(Code.ENDED, f"the job has already ended: it is {status}")
            canceled = await store.cancel(connection, job_id)
            if canceled:
                await store.touch(connection, job_id)
            return canceled

        return await self._write(job_id, cancel)

    async def revive(self, job_id: UUID) -> Changed:
        """Revive the failed tasks of a job, and all that their ends or the job's own has canceled.

        Raises:
            NotFound: there is no such job.
            Conflict: it is completed.

        """
        token = self._new_id()
        touching: set[Window] = set()

        async def revive(connection: Connection, tasks: Mapping[UUID, Task]) -> list[Task]:
            if tasks and status_of(tasks.values()) is JobStatus.COMPLETED:
                raise Conflict(Code.ENDED, "the job is completed: only failed and canceled ones can be revived")
            wanted = [task.id for task in tasks.values() if is_ended_by_job(task)]
            return await revive_in_job(connection, job_id, tasks, wanted, token, touching) if wanted else []

        return await self._write(job_id, revive, touching)

    async def _write(
        self,
        job_id: UUID,
        write: Callable[[Connection, Mapping[UUID, Task]], Awaitable[list[Task]]],
        touching: Collection[Window] = (),
    ) -> Changed:
        """Write a job that is locked, given its tasks; answer it with the status that they have then."""
        job: Job | None = None

        async def work(connection: Connection) -> list[Task]:
            nonlocal job
            written = await write(connection, await locked_tasks(connection, job_id))
            await store.follow(connection, [job_id])
            job = await store.get(connection, job_id)
            return written

        written = await self._writes.run(work, atomically=True, touching=touching)
        if job is None:
            raise _not_found(job_id)
        return Changed(job=job, replayed=not written)


async def _find(connection: Connection, earlier: Earlier) -> tuple[SubmittedJob, Sequence[Task]]:
    """Read what has become of a job that was made before."""
    job_id = earlier.made.job_id
    assert job_id
    assert earlier.made.answer
    task_ids = msgspec.msgpack.decode(earlier.made.answer, type=dict[str, UUID])
    tasks = await store.tasks(connection, job_id)
    job = await store.get(connection, job_id) if tasks else None
    told = _told(job, tasks) if job else None
    return SubmittedJob(id=job_id, job=told, task_ids=task_ids, replayed=earlier.replayed), tasks


def _told(job: Job, tasks: Sequence[Task]) -> Job:
    """Give a job the status that its tasks say; where the store lags behind, its end was that of its last task."""
    status = status_of(tasks)
    end_time = job.end_time if status in FINAL else None
    if status in FINAL and end_time is None:
        end_time = max(task.update_time for task in tasks)
    return msgspec.structs.replace(job, status=status, end_time=end_time)


def _not_found(job_id: UUID) -> NotFound:
    return NotFound(Code.JOB_NOT_FOUND, f"there is no job {job_id}")
