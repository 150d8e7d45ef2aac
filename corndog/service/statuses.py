"""Keeps the stored status of jobs, by which they are listed, up to what their tasks say.

Many tasks of a job end at once, so none of their transactions touches the job's row. The process notes which jobs it
has written tasks of, and follows them a moment later; a loop heals what a process took with it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from corndog.domain.errors import Unavailable
from corndog.domain.jobs import JobStatus
from corndog.domain.listing import Place
from corndog.domain.task import Task
from corndog.lifetime import in_background
from corndog.store import jobs as store
from corndog.store.engine import Database

logger = logging.getLogger(__name__)

_BATCH = 500
_PAUSE = 0.2
"""Seconds between two statements that follow, at least: what a job's tasks do meanwhile counts once."""

_KNOWN_MAX = 10_000
"""How many jobs a process remembers as begun."""


class Statuses:
    """Follows jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: set[UUID] = set()
        self._begun: dict[UUID, None] = {}
        self._is_noted = asyncio.Event()

    def note_written(self, tasks: Iterable[Task]) -> None:
        """Note that tasks were written, some of which may be jobs'."""
        self._note(task.job_id for task in tasks if task.job_id)

    def note_claimed(self, tasks: Iterable[Task]) -> None:
        """Note that tasks were handed out: the first of a job begins it."""
        for job_id in {task.job_id for task in tasks if task.job_id} - self._begun.keys():
            self._note([job_id])
            self._begun[job_id] = None
            if len(self._begun) > _KNOWN_MAX:
                del self._begun[next(iter(self._begun))]

    def _note(self, job_ids: Iterable[UUID]) -> None:
        self._noted.update(job_ids)
        if self._noted:
            self._is_noted.set()

    async def run(self) -> None:
        """Follow what is noted, for as long as this runs."""
        while True:
            await self._is_noted.wait()
            await asyncio.sleep(_PAUSE)
            try:
                await self.follow()
            except Unavailable:
                logger.warning("the status of jobs can't be stored now; a loop will do it")
            except Exception:
                logger.exception("the status of jobs could not be stored; a loop will do it")

    async def follow(self) -> None:
        """Store the status of the jobs that are noted."""
        self._is_noted.clear()
        noted, self._noted = list(self._noted), set()
        for start in range(0, len(noted), _BATCH):
            batch = noted[start : start + _BATCH]
            await self._follow(batch)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow what is noted while in this context, and once more at its end."""
        try:
            async with in_background(self.run()):
                yield
        finally:
            with suppress(Unavailable):
                await self.follow()

    async def heal(self) -> int:
        """Look at all jobs that are stored as unfinished, and tell how many there are."""
        number = 0
        for status in (JobStatus.PENDING, JobStatus.RUNNING):
            batch = [Place()]
            while batch := await self._unfinished(status, batch[-1]):
                await self._follow([place.id for place in batch])
                number += len(batch)
        return number

    async def _unfinished(self, status: JobStatus, after: Place) -> list[Place]:
        return await self._database.run(lambda connection: store.unfinished(connection, status, after, _BATCH))

    async def _follow(self, job_ids: Sequence[UUID]) -> None:
        self._note(await self._database.run(lambda connection: store.follow(connection, job_ids)))
