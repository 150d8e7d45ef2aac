"""Runs the loops, on APScheduler."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from corndog.domain.errors import Unavailable
from corndog.scheduler.leader import RENEWAL, Leader
from corndog.scheduler.loop import Loop

logger = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds that a loop's run gets to finish at the end; without the database it could wait for much longer."""


@asynccontextmanager
async def running(loops: Sequence[Loop], leader: Leader) -> AsyncIterator[None]:
    """Run the loops while in this context and while leading; what is under way at its end is finished."""
    # APScheduler does not wait for coroutines when it stops, so those under way are known here.
    under_way: set[asyncio.Task[object]] = set()

    def tracked(work: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            task = asyncio.ensure_future(work())
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            with suppress(asyncio.CancelledError):  # late at the end
                await asyncio.shield(task)

        return run

    scheduler = AsyncIOScheduler(timezone=UTC)
    scheduler.add_job(
        tracked(_guarded("leadership", leader.campaign)),
        IntervalTrigger(seconds=RENEWAL.total_seconds()),
        next_run_time=datetime.now(UTC),
        max_instances=1,
        coalesce=True,
        misfire_grace_time=None,
    )
    for loop in loops:
        scheduler.add_job(
            tracked(_guarded(loop.name, _if_due_here(leader, loop))),
            IntervalTrigger(seconds=loop.interval),
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
        )
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=False)
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=GRACE)
            for task in late:
                task.cancel()
        await _guarded("resignation", leader.resign)()


def _if_due_here(leader: Leader, loop: Loop) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        if leader.leads or not loop.by_leader:
            await loop.run()

    return run


def _guarded(name: str, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Make work whose failure is logged and ends neither its loop nor the server."""

    async def run() -> None:
        try:
            await work()
        except Unavailable:
            logger.warning("%s: the database is unavailable; trying again", name)
        except Exception:
            logger.exception("%s failed; trying again", name)

    return run
