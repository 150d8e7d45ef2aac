"""What is deleted because it was kept long enough: ended tasks and jobs by their outcome, and whatever else is given.

A task goes with its payload, its result and its history; a job with all its tasks, in one transaction. Nothing of a
job that has not ended goes, however old it is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import TypeAlias
from uuid import UUID

import msgspec

from corndog.domain.task import Phase
from corndog.store import keys, workers
from corndog.store import retention as store
from corndog.store.engine import Connection, Database
from corndog.store.retention import START, EndedJob

Work: TypeAlias = Callable[[int], Awaitable[int]]
"""Looks at a batch of this size at most, deletes what is due, and tells at how many it has looked."""

FIRST_BATCH = 25
"""How much a run begins with: what is large in bytes takes long to delete."""

BATCH = 500
"""How much a batch has at most, and how many tasks jobs have that go together."""

STEP = 50
"""How many tasks of a job one statement deletes: even with the largest payloads it keeps well within its time."""

_SHORT, _LONG = 0.1, 0.5
"""Seconds: a batch that takes less is followed by a larger one, and one that takes more by a smaller one."""


class Purge(msgspec.Struct, frozen=True):
    """One kind of what is deleted."""

    name: str
    work: Work


class Retention:
    """Runs purges, one after the other, each in batches until one is not full."""

    def __init__(self, purges: Sequence[Purge]) -> None:
        self._purges = purges
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End the run under way after its batch, and let no other begin."""
        self._stopped.set()

    async def purge(self) -> int:
        """Delete all that is due, and tell how much was looked at. A purge that fails holds up no other."""
        total = 0
        errors: list[Exception] = []
        for purge in self._purges:
            try:
                total += await self._all(purge)
            except Exception as error:  # noqa: BLE001 - it is raised below
                error.add_note(f"while purging {purge.name}")
                errors.append(error)
        if errors:
            raise errors[0]
        return total

    async def _all(self, purge: Purge) -> int:
        total, batch = 0, FIRST_BATCH
        while not self._stopped.is_set():
            began = monotonic()
            number = await purge.work(batch)
            total += number
            if number < batch:
                break
            took = monotonic() - began
            if took < _SHORT:
                batch = min(2 * batch, BATCH)
            elif took > _LONG:
                batch = max(batch // 2, 1)
            await self._rest(took)
        return total

    async def _rest(self, seconds: float) -> None:
        """Leave the database to others for as long as the last batch has taken."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)


def of_ended(database: Database, kept: Mapping[Phase, timedelta]) -> list[Purge]:
    """Make the purges of ended tasks and jobs: how long they are kept by their outcome; zero: for ever."""
    limited = [(phase, time) for phase, time in kept.items() if time]
    return [
        *(Purge(f"{phase} tasks", EndedTasks(database, phase, time).purge) for phase, time in limited),
        *(Purge(f"{phase} jobs", EndedJobs(database, phase, time).purge) for phase, time in limited),
    ]


def of_workers(database: Database, kept: timedelta) -> list[Purge]:
    """Make the purge of the registry: how long a worker is known that is not heard of; zero: for ever."""

    async def purge(batch: int) -> int:
        return await database.run(lambda connection: workers.purge(connection, kept, batch))

    return [Purge("workers", purge)] if kept else []


def of_keys(database: Database, ttl: timedelta) -> Purge:
    """Make the purge of idempotency keys: how long each is kept after what was made under it."""

    async def purge(batch: int) -> int:
        return await database.run(lambda connection: keys.purge(connection, ttl, batch))

    return Purge("keys", purge)


class EndedTasks:
    """Purges the tasks of no job that have one outcome.

    While batches are full, each begins where the last one ended: it reads no row again that was deleted just now.
    """

    def __init__(self, database: Database, phase: Phase, kept: timedelta) -> None:
        self._database = database
        self._phase = phase
        self._kept = kept
        self._after = START

    async def purge(self, batch: int) -> int:
        """Delete a batch."""
        after = self._after
        purged = await self._database.run(
            lambda connection: store.tasks(connection, self._phase, self._kept, after, batch)
        )
        self._after = purged[-1] if len(purged) == batch else START
        return len(purged)


class EndedJobs:
    """Purges the jobs that have one outcome, each with all its tasks in one transaction: nobody sees a part of it."""

    def __init__(self, database: Database, phase: Phase, kept: timedelta) -> None:
        self._database = database
        self._phase = phase
        self._kept = kept
        self._after = START

    async def purge(self, batch: int) -> int:
        """Look at a batch of jobs, and delete those that have truly ended: at once as many as make a batch of tasks."""
        after = self._after
        found = await self._database.run(
            lambda connection: store.find_jobs(connection, self._phase, self._kept, after, batch)
        )
        for group in _groups(found):
            self._after = group[-1].place  # the next run goes on behind what fails
            await self._purge_together(group)
        if len(found) < batch:
            self._after = START
        return len(found)

    async def _purge_together(self, group: Sequence[EndedJob]) -> None:
        async def work(connection: Connection) -> None:
            taken = await store.lock_jobs(connection, [job.place.id for job in group], self._phase, self._kept)
            # A revival takes the job first: what is read from here on stays. The status that was stored may be old.
            ended = await store.check_jobs(connection, taken) if taken else []
            if ended:
                await _delete(connection, ended)

        await self._database.transaction(work, is_limited=False)


async def _delete(connection: Connection, job_ids: Sequence[UUID]) -> None:
    while await store.job_tasks(connection, job_ids, STEP) == STEP:
        pass
    await store.jobs(connection, job_ids)


def _groups(jobs: Sequence[EndedJob]) -> Iterator[list[EndedJob]]:
    """Put as many jobs together as have a batch of tasks among them; a larger job goes alone."""
    group: list[EndedJob] = []
    tasks = 0
    for job in jobs:
        if group and tasks + job.task_count > BATCH:
            yield group
            group, tasks = [], 0
        group.append(job)
        tasks += job.task_count
    if group:
        yield group
