"""What time does to tasks when someone asks for it: the sweep of timed-out tasks, and unparking."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from corndog.domain.task import Task, Window
from corndog.service.dependents import settle
from corndog.service.writes import Writes
from corndog.store import tasks as store
from corndog.store.engine import Connection, Database
from corndog.store.reading import now

BATCH = 500
"""How many tasks one transaction moves: enough to be fast, few enough to hold nobody up."""

LANES = 2
"""How many batches are moved side by side where there are many; they pass over each other's rows."""

BURIED = 10
"""How many lost tasks one transaction ends: for each of them it looks at all that waits for it, up to a whole job."""


class Clocks:
    """Ends clocks and parkings."""

    def __init__(self, database: Database, writes: Writes) -> None:
        self._database = database
        self._writes = writes

    async def clean_up(self, at_time: datetime | None = None, queue: str | None = None) -> int:
        """Time out every task whose clock ends by `at_time` (default: now), and tell how many.

        Tasks that are claimed after this began are left alone, so that with a time in the future it ends.
        """
        began = await self._database.run(now)
        by = began if at_time is None else at_time
        dead = await self._bury(by, began, queue)

        async def sweep() -> int:
            return len(
                await self._writes.run(
                    lambda connection: store.sweep(connection, at_time=by, began=began, queue=queue, batch=BATCH)
                )
            )

        return dead + await _in_batches(sweep)

    async def _bury(self, by: datetime, began: datetime, queue: str | None) -> int:
        """End the tasks that were lost too often, with what that does to the tasks that wait for them."""
        touching: set[Window] = set()
        total = 0
        number = BURIED
        while number == BURIED:

            async def bury(connection: Connection) -> list[Task]:
                nonlocal number
                dead = await store.sweep_dead(connection, at_time=by, began=began, queue=queue, batch=BURIED)
                number = len(dead)
                return dead + await settle(connection, dead, touching)

            await self._writes.run(bury, atomically=True, touching=touching)
            total += number
        return total

    async def unpark(self) -> int:
        """Make every parked task ready whose time has come by the database's clock, and tell how many."""

        async def unpark() -> int:
            unparked = await self._database.run(lambda connection: store.unpark(connection, BATCH))
            await self._writes.news.make_known(unparked)
            return len(unparked)

        return await _in_batches(unpark)


async def _in_batches(move: Callable[[], Awaitable[int]]) -> int:
    """Move batches, each in a transaction of its own, until one is not full.

    Where there is more than one, the database moves some while others are made known.
    """
    first = await move()
    if first < BATCH:
        return first
    lanes = await asyncio.gather(*(_until_not_full(move) for _ in range(LANES)), return_exceptions=True)
    total = first
    for lane in lanes:
        if isinstance(lane, BaseException):
            raise lane
        total += lane
    return total


async def _until_not_full(move: Callable[[], Awaitable[int]]) -> int:
    total = 0
    number = BATCH
    while number == BATCH:
        number = await move()
        total += number
    return total
