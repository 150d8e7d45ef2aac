"""Many long polls: at the end of their server, and beside its other work. Trials S32 and S37."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx
import pytest
from tenacity import AsyncRetrying, stop_after_delay

from corndog.settings import Settings
from tests.api.calls import Api
from tests.faults import plain_url
from tests.servers import free_port, running_server, start_server

LONG = 60
"""Seconds to wait for what is to come much sooner."""


@asynccontextmanager
async def talking(url: str, queue: str) -> AsyncIterator[Api]:
    """Talk over as many connections as are needed."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=LONG + 30, limits=limits) as client:
        yield Api(client, queue)


@pytest.mark.parametrize("has_redis", [True, False], ids=["redis", "without redis"])
@pytest.mark.parametrize("workers", [1, 2])
async def test_polls_are_answered_and_holds_stay_when_the_server_ends(
    database_url: str, accelerator_url: str, queue: str, workers: int, *, has_redis: bool
) -> None:
    """S32."""
    settings = Settings(database_url=database_url, redis_url=accelerator_url if has_redis else "")
    port = free_port()
    process = await asyncio.to_thread(start_server, settings, port, workers=workers)
    async with talking(f"http://127.0.0.1:{port}", queue) as api:
        submitted = [(await api.submit(work_timeout=0))["id"] for _ in range(50)]
        held = await api.claim(count=50)
        assert [task["id"] for task in held] == submitted
        polls = [asyncio.create_task(api.try_claim(wait=LONG)) for _ in range(50)]
        await asyncio.sleep(1)
        assert not any(poll.done() for poll in polls)

        process.send_signal(signal.SIGTERM)

        answers = await asyncio.wait_for(asyncio.gather(*polls), LONG / 2)
        assert Counter((answer.status_code, answer.text) for answer in answers) == {(200, '{"tasks":[]}'): 50}
    assert await asyncio.to_thread(process.wait, LONG / 2) == 0

    with running_server(settings) as url:
        async with talking(url, queue) as api:
            assert await api.claim(count=100, wait=3) == []
            for task in held:
                assert await api.get(task["id"]) == {name: task[name] for name in await api.get(task["id"])}
                assert (await api.complete(task["id"], delivery=1))["replayed"] is False


async def test_a_poll_that_is_ended_by_the_server_leaves_its_task(
    database_url: str, accelerator_url: str, queue: str
) -> None:
    """What is submitted while a server ends is handed out to one that is answered, or not at all."""
    settings = Settings(database_url=database_url, redis_url=accelerator_url)
    port = free_port()
    process = await asyncio.to_thread(start_server, settings, port)
    with running_server(settings) as other_url:
        async with talking(f"http://127.0.0.1:{port}", queue) as ending, talking(other_url, queue) as lasting:
            polls = [asyncio.create_task(ending.claim(wait=LONG)) for _ in range(50)]
            await asyncio.sleep(0.5)
            submits = [asyncio.create_task(lasting.submit()) for _ in range(30)]
            process.send_signal(signal.SIGTERM)

            claimed = [task for poll in polls for task in await asyncio.wait_for(poll, LONG / 2)]
            submitted = [(await submit)["id"] for submit in submits]
            assert await asyncio.to_thread(process.wait, LONG / 2) == 0
            async with asyncio.timeout(LONG / 2):
                while len(claimed) < 30:
                    claimed += await lasting.claim(count=30, wait=1)

            assert Counter(task["id"] for task in claimed) == Counter(submitted)
            for task in claimed:
                assert (await lasting.complete(task["id"], delivery=task["delivery"]))["replayed"] is False


POLLS = 500


@pytest.mark.parametrize("has_redis", [True, False], ids=["redis", "without redis"])
async def test_idle_polls_starve_nobody(
    database_url: str, accelerator_url: str, queue: str, *, has_redis: bool
) -> None:
    """S37."""
    settings = Settings(
        database_url=database_url, redis_url=accelerator_url if has_redis else "", pool_size=10, scheduler=False
    )
    database = await asyncpg.connect(plain_url(database_url))
    sessions = """SELECT count(*) AS number, max(query_start) AS last, count(*) FILTER (WHERE state <> 'idle') AS busy
        FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'corndog'"""

    with running_server(settings) as url:
        async with talking(url, queue) as api:
            polls = [asyncio.create_task(api.claim(wait=LONG)) for _ in range(POLLS)]
            # However many wait, no connection is held; nor is the database asked, with Redis.
            async for attempt in AsyncRetrying(stop=stop_after_delay(40)):
                with attempt:
                    before = await database.fetchrow(sessions)
                    await asyncio.sleep(2.5)
                    after = await database.fetchrow(sessions)
                    assert before is not None
                    assert after is not None
                    assert 0 < before["number"] <= 10
                    assert after["busy"] == 0
                    assert after == before or not has_redis
            assert not any(poll.done() for poll in polls)

            # Others are served all the same.
            async def work(number: int) -> None:
                own = {"queue": f"{queue}-{number}"}
                for _ in range(10):
                    task = await api.submit(**own)
                    [held] = await api.claim(**own)
                    assert held["id"] == task["id"]
                    await api.complete(held["id"], delivery=1)

            await asyncio.wait_for(asyncio.gather(*map(work, range(10))), LONG / 2)
            assert not any(poll.done() for poll in polls)

            # And each poll gets a task of its own.
            starter = await api.submit(current_state="start")
            await api.complete(starter["id"], current_state="start", next_tasks=[{"queue": queue}] * POLLS)
            claimed = [await poll for poll in polls]
            assert {len(tasks) for tasks in claimed} == {1}
            assert len({task["id"] for tasks in claimed for task in tasks}) == POLLS
            assert {task["delivery"] for tasks in claimed for task in tasks} == {1}
    await database.close()
