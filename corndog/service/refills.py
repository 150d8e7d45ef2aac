"""Filling windows from the database: when a claim finds one used up, and regularly, in case something was lost."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from uuid import uuid4

from corndog.domain.task import Candidate, Order, Window
from corndog.hints.link import Away
from corndog.hints.windows import REFILL_LIFE, Begun, Windows
from corndog.observability import metrics
from corndog.store import claims as store
from corndog.store.engine import Database

HEAD = 500
"""How many tasks of a window reconciling reads: what was lost from its head is what holds claims up."""

_ROWS = 20_000
"""How many rows are read at once of several windows, more or less."""

_LEAST = 20
_GROUP = _ROWS // HEAD
_READ_SECONDS = 0.8 * REFILL_LIFE.total_seconds()
RECONCILE = "reconcile"
_SLACK = 0.9
"""The part of an interval after which the next server may reconcile: their clocks tick as they like."""

_REST = 4
"""How many times as long as it took reconciling rests: it may cost a fifth of one connection's time at most."""


class Refills:
    """Fills windows; in this process each by one refill at a time."""

    def __init__(self, database: Database, windows: Windows) -> None:
        self._database = database
        self._windows = windows
        self._under_way: dict[Window, asyncio.Task[bool]] = {}

    async def refill(self, windows: Sequence[Window]) -> bool:
        """Fill these windows; False if another process is at one of them, and it is worth a short wait.

        Raises:
            Away: Redis is not used now.
            Unavailable: the database did not answer in time.

        """
        if free := [window for window in windows if window not in self._under_way]:
            task = asyncio.create_task(self._fill(free))
            self._under_way |= dict.fromkeys(free, task)
            task.add_done_callback(lambda _: [self._under_way.pop(window) for window in free])
        # Who gives up waiting leaves the refill to the others.
        under_way = {self._under_way[window] for window in windows}
        return all(await asyncio.gather(*map(asyncio.shield, under_way)))

    async def start_over(self, windows: Sequence[Window]) -> bool:
        """Fill windows that mislead from the start."""
        await self._windows.forget(windows)
        return await self.refill(windows)

    async def reconcile(self, interval: float) -> int:
        """Offer the head of every window that has ready tasks in the database, unless a server did in the interval.

        It heals what was lost between a commit and the offer, or between a take and the claim. Tells how many windows.
        """
        began = monotonic()
        total = 0
        after: Window | None = None
        with suppress(Away):
            # Whoever comes first: one that leads may be without Redis, or dead.
            if not await self._windows.take_turn(RECONCILE, _SLACK * interval):
                return 0
            while windows := await self._ready_after(after):
                limit = min(HEAD, self._windows.size)
                heads = await self._heads([Begun(window, None) for window in windows], limit)
                await self._windows.offer(heads, heads_of=limit)
                metrics.REFILLS.labels("reconcile").inc(len(windows))
                total, after = total + len(windows), windows[-1]
            if (rest := _REST * (monotonic() - began)) > interval:
                await self._windows.keep_turn(RECONCILE, rest)
        return total

    async def _ready_after(self, after: Window | None) -> list[Window]:
        return await self._database.run(lambda connection: store.ready_windows(connection, after, _GROUP))

    async def _fill(self, windows: Sequence[Window]) -> bool:
        token = uuid4().hex
        begun = await self._windows.begin(windows, token)
        if begun:
            limit = min(self._windows.size, max(_ROWS // len(begun), _LEAST))
            found: dict[Window, list[Order]] = {window: [] for window in windows}
            try:
                for head in await self._heads(begun, limit):
                    found[head.window].append(head.order)
            except BaseException:
                # Nobody has to wait for what will not be finished.
                await self._windows.forget(windows)
                raise
            await self._windows.finish(token, {refill: found[refill.window] for refill in begun}, limit)
            metrics.REFILLS.labels("claim").inc(len(begun))
        return len(begun) == len(windows)

    async def _heads(self, refills: Sequence[Begun], limit: int) -> list[Candidate]:
        places = {refill.window: refill.after for refill in refills}
        return await self._database.once(
            lambda connection: store.ready_heads(
                connection, places, limit, limit * len(places), limit_seconds=_READ_SECONDS
            )
        )
