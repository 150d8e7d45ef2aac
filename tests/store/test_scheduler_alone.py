"""The loops run alone, in this process: what they write of jobs is followed as it is in a server."""

import asyncio
import operator

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.app import run_scheduler
from corndog.domain.jobs import Member, NewJob
from corndog.domain.task import NewTask, RetryPolicy
from corndog.scheduler.statuses import INTERVAL
from corndog.settings import Settings
from corndog.store.engine import Database
from tests.store.house import MICROSECOND, House


async def test_counts_are_folded(empty_database_url: str) -> None:
    database = Database(empty_database_url)
    house = House(database)
    await house.submit(3, queue="q")
    stop = asyncio.Event()
    loops = asyncio.create_task(run_scheduler(Settings(database_url=empty_database_url), stop))

    async def totals() -> list[tuple[object, ...]]:
        return [tuple(row) for row in await house.rows("SELECT * FROM queue_state_counts")]

    try:
        poll = AsyncRetrying(retry=retry_if_result(operator.not_), wait=wait_fixed(0.05), stop=stop_after_delay(20))
        assert await poll(totals) == [("q", "submitted", 3)]
    finally:
        stop.set()
        await loops
        await database.close()


async def test_a_job_that_a_sweep_ends_is_stored_as_ended(empty_database_url: str) -> None:
    database = Database(empty_database_url)
    house = House(database)
    new = NewTask(queue="q", policy=RetryPolicy(max_lost=1))
    made = await house.jobs.submit(NewJob(members=[Member(name="a", new=new)]))
    await house.claim("q", override_timeout=MICROSECOND)
    stop = asyncio.Event()
    loops = asyncio.create_task(run_scheduler(Settings(database_url=empty_database_url, cleanup_interval=0.05), stop))

    async def has_failed() -> bool:
        [row] = await house.rows("SELECT status FROM jobs WHERE id = $1", made.id)
        return bool(row["status"] == "failed")

    # Sooner than the loop would find it that looks at all unfinished jobs.
    within = stop_after_delay(INTERVAL / 2)
    try:
        await AsyncRetrying(retry=retry_if_result(operator.not_), wait=wait_fixed(0.05), stop=within)(has_failed)
    finally:
        stop.set()
        await loops
        await database.close()
