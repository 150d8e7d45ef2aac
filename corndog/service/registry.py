"""The registry of workers, kept by their heartbeats: who was seen when, and who is to drain.

A row is written every few seconds at most, so that heartbeats go on costing no SQL; in between, the last answer counts.
The registry serves people who look at the fleet: no heartbeat fails with it, or waits for it for long.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from time import monotonic

import msgspec

from corndog.domain.errors import Unavailable
from corndog.store import workers as store
from corndog.store.engine import Database

logger = logging.getLogger(__name__)

EVERY = timedelta(seconds=10)
"""How long a worker's row is left alone after it was written, or should have been."""

PATIENCE = 1.0
"""Seconds that a heartbeat waits for the registry; its answer is then the one before."""

KNOWN_MAX = 20_000
"""Of how many workers a process remembers the last answer."""

DUE_MAX = 1000
"""How many rows are written at once. If the database is so slow that more are due, some are left out this time."""


class _Known(msgspec.Struct):
    due: float
    drains: bool


class _Heard(msgspec.Struct):
    metadata: str | None
    written: asyncio.Event


class Registry:
    """Writes down who sends heartbeats; all that are due while one group is written make the next."""

    def __init__(self, database: Database, every: timedelta = EVERY) -> None:
        self._database = database
        self._every = every.total_seconds()
        self._known: dict[str, _Known] = {}
        self._due: dict[str, _Heard] = {}
        self._writing: asyncio.Task[None] | None = None

    def hear(self, worker_id: str, metadata: str | None) -> asyncio.Event | None:
        """Note that a worker was heard of; gives what tells that it is written down, where that is due now."""
        known = self._known.pop(worker_id, None) or _Known(0, drains=False)
        self._known[worker_id] = known
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        if monotonic() < known.due or len(self._due) >= DUE_MAX:
            return None
        known.due = monotonic() + self._every
        heard = self._due[worker_id] = _Heard(metadata, asyncio.Event())
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return heard.written

    async def drains(self, worker_id: str, written: asyncio.Event | None) -> bool:
        """Tell whether a worker is to drain, as far as this process knows."""
        if written:
            with suppress(TimeoutError):
                await asyncio.wait_for(written.wait(), PATIENCE)
        known = self._known.get(worker_id)
        return known is not None and known.drains

    def learn(self, ids: Iterable[str], *, drains: bool) -> None:
        """Take note of what has just been written by others about workers that this process knows."""
        for worker_id in ids:
            if known := self._known.get(worker_id):
                known.drains = drains

    async def close(self) -> None:
        """Leave what is not written yet."""
        if self._writing:
            self._writing.cancel()
            await asyncio.wait({self._writing})

    async def _write(self) -> None:
        try:
            while self._due:
                heard, self._due = self._due, {}
                await self._keep(heard)
        finally:
            self._writing = None

    async def _keep(self, heard: dict[str, _Heard]) -> None:
        rows = {worker_id: one.metadata for worker_id, one in heard.items()}
        try:
            answers = await self._database.once(lambda connection: store.keep(connection, rows))
            for worker_id, drains in answers.items():
                self.learn([worker_id], drains=drains)
        except Unavailable:
            logger.warning("the registry of workers is not written: the database is unavailable")
        except Exception:
            logger.exception("the registry of workers is not written")
        finally:
            for one in heard.values():
                one.written.set()
