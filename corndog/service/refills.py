"""Filling windows from the database: when a claim finds one empty, and regularly, in case something was lost."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from uuid import uuid4

from corndog.domain.task import Order, Window
from corndog.hints.link import Away
from corndog.hints.windows import REFILL_LIFE, Windows
from corndog.observability import metrics
from corndog.store import tasks as store
from corndog.store.engine import Database

HEAD = 500
"""How many tasks of a window reconciling reads: what was lost from its head is what holds claims up."""

_ROWS = 20_000
"""How many rows one refill of several windows reads, more or less."""

_READ_TIMEOUT = 0.8 * REFILL_LIFE.total_seconds()
_GROUP = _ROWS // HEAD
_REST = 4
"""How many times as long as it took reconciling rests: it may cost a fifth of one connection's time at most."""


class Refills:
    """Fills windows; in this process each by one refill at a time."""

    def __init__(self, database: Database, windows: Windows) -> None:
        self._database = database
        self._windows = windows
        self._under_way: dict[Window, asyncio.Task[bool]] = {}
        self._rests_until = 0.0

    async def refill(self, windows: Sequence[Window]) -> bool:
        """Fill these windows; False if another process is at one of them, and it is worth a short wait.

        Raises:
            Away: Redis is not used now.
            Unavailable: the database did not answer in time.

        """
        limit = min(self._windows.size, max(_ROWS // len(windows), HEAD))
        if free := [window for window in windows if window not in self._under_way]:
            task = asyncio.create_task(self._fill(free, limit, "claim"))
            self._under_way |= dict.fromkeys(free, task)
            task.add_done_callback(lambda _: [self._under_way.pop(window) for window in free])
        # Who gives up waiting leaves the refill to the others.
        under_way = {self._under_way[window] for window in windows}
        return all(await asyncio.gather(*map(asyncio.shield, under_way)))

    async def reconcile(self) -> int:
        """Fill every window that has ready tasks in the database from its head; tells how many windows.

        It heals what was lost between a commit and the offer, or between a take and the claim.
        """
        if monotonic() < self._rests_until:
            return 0
        began = monotonic()
        total = 0
        after: Window | None = None
        with suppress(Away):
            while windows := await self._ready_after(after):
                await self._fill(windows, min(HEAD, self._windows.size), "reconcile")
                total, after = total + len(windows), windows[-1]
        self._rests_until = monotonic() + _REST * (monotonic() - began)
        return total

    async def _ready_after(self, after: Window | None) -> list[Window]:
        return await self._database.run(lambda connection: store.ready_windows(connection, after, _GROUP))

    async def _fill(self, windows: Sequence[Window], limit: int, reason: str) -> bool:
        token = uuid4().hex
        begun = await self._windows.begin(windows, token)
        if begun:
            metrics.REFILLS.labels(reason).inc(len(begun))
            heads = await self._database.once(
                lambda connection: store.ready_heads(
                    connection, begun, limit, limit * len(begun), limit_seconds=_READ_TIMEOUT
                )
            )
            found: dict[Window, list[Order]] = {window: [] for window in begun}
            for head in heads:
                found[head.window].append(head.order)
            await self._windows.finish(token, found, limit)
        return len(begun) == len(windows)
