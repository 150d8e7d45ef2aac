"""The use cases about workers: what they are told by their heartbeats, and who looks at the fleet or drains it."""

from collections.abc import Sequence
from functools import partial

import msgspec

from corndog.domain.task import Beat, Hold
from corndog.domain.workers import Worker, WorkerFilter
from corndog.service.heartbeats import Heartbeats
from corndog.service.registry import Registry
from corndog.store import workers as store
from corndog.store.engine import Database

BATCH = 500
"""How many workers one statement marks."""


class Told(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: how each delivery stands, and whether the worker is to drain."""

    beats: Sequence[Beat]
    drain: bool


class Page(msgspec.Struct, frozen=True):
    """Some workers, and after which the next page begins; None if there is none."""

    workers: Sequence[Worker]
    following: str | None


class Drained(msgspec.Struct, frozen=True):
    """Which workers are marked now as was asked, and which of those named are not known."""

    marked: Sequence[str]
    unknown: Sequence[str] = ()


class Workers:
    """Answers workers, and those who run them."""

    def __init__(self, database: Database, heartbeats: Heartbeats, registry: Registry) -> None:
        self._database = database
        self._heartbeats = heartbeats
        self._registry = registry

    async def beat(self, worker_id: str, metadata: str | None, holds: Sequence[Hold]) -> Told:
        """Answer a heartbeat, and keep the registry. A worker without a name can't be told to drain."""
        if not worker_id:
            return Told(await self._heartbeats.beat(holds), drain=False)
        written = self._registry.hear(worker_id, metadata)
        beats = await self._heartbeats.beat(holds)
        return Told(beats, await self._registry.drains(worker_id, written))

    async def page(self, wanted: WorkerFilter, after: str, limit: int) -> Page:
        """List workers by name."""
        # One more than asked for tells whether there is a next page.
        found = await self._database.run(lambda connection: store.page(connection, wanted, after, limit + 1))
        return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)

    async def drain(self, ids: Sequence[str], *, drains: bool) -> Drained:
        """Tell workers to take no more and end once they hold nothing; or take that back."""
        wanted = list(dict.fromkeys(ids))
        marked = await self._mark(wanted, drains=drains)
        return Drained(
            [worker_id for worker_id in wanted if worker_id in marked],
            [worker_id for worker_id in wanted if worker_id not in marked],
        )

    async def drain_all(self, *, drains: bool) -> Drained:
        """Do the same to all workers that there are now."""
        marked: list[str] = []
        after = ""
        while True:
            names = await self._database.run(partial(store.names, after=after, limit=BATCH))
            done = await self._mark(names, drains=drains)
            marked += [worker_id for worker_id in names if worker_id in done]
            if len(names) < BATCH:
                return Drained(marked)
            after = names[-1]

    async def _mark(self, ids: Sequence[str], *, drains: bool) -> set[str]:
        marked: set[str] = set()
        for first in range(0, len(ids), BATCH):
            some = ids[first : first + BATCH]
            marked |= await self._database.run(partial(store.drain, ids=some, drains=drains))
        self._registry.learn(marked, drains=drains)
        return marked
