"""SIGTERM: what is in flight is answered, and what was acknowledged is there."""

import asyncio
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import httpx
import pytest
from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

from corndog.settings import Settings
from tests.api.calls import Api
from tests.api.lines import line
from tests.faults import plain_url
from tests.servers import free_port, start_server


@pytest.mark.parametrize("keeps_alive", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
async def test_under_load_every_request_that_was_done_is_answered(
    database_url: str, queue: str, workers: int, *, keeps_alive: bool
) -> None:
    port = free_port()
    process = await asyncio.to_thread(start_server, Settings(database_url=database_url), port, workers=workers)
    acknowledged: list[str] = []
    busy = asyncio.Event()

    async def submit_until_the_end(api: Api) -> None:
        while True:
            try:
                response = await api.try_submit(payload="x" * 10_000)
            except httpx.TransportError:
                # Refused, or accepted by the system and never read by the server.
                return
            assert response.status_code == 201
            acknowledged.append(response.json()["task"]["id"])
            if len(acknowledged) > 200:
                busy.set()

    limits = httpx.Limits(max_keepalive_connections=None if keeps_alive else 0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, limits=limits) as client:
        load = [asyncio.create_task(submit_until_the_end(Api(client, queue))) for _ in range(16)]
        await asyncio.wait_for(busy.wait(), 60)
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(asyncio.gather(*load), 60)
    assert await asyncio.to_thread(process.wait, 30) == 0

    database = await asyncpg.connect(plain_url(database_url))
    done = [str(row[0]) for row in await database.fetch("SELECT id FROM tasks WHERE queue = $1", queue)]
    await database.close()
    assert sorted(done) == sorted(acknowledged)


async def refuses_connections(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


async def test_requests_that_wait_for_the_database_are_answered(database_url: str, queue: str) -> None:
    with TemporaryDirectory(prefix="line-", dir="/tmp") as directory:
        async with line(database_url, Path(directory)) as between:
            port = free_port()
            settings = Settings(database_url=between.url, scheduler=False)
            process = await asyncio.to_thread(start_server, settings, port)
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                api = Api(client, queue)
                await asyncio.gather(*(api.submit(kind="before") for _ in range(20)))
                between.block()
                # Others are written in one group, which waits for its turn, with them.
                requests = [
                    asyncio.create_task(api.try_submit(kind="in flight")),
                    # These are not grouped: each waits for the database by itself.
                    *(asyncio.create_task(client.get("/v1/tasks", params={"queue": queue})) for _ in range(4)),
                ]
                async for attempt in AsyncRetrying(stop=stop_after_delay(30), wait=wait_fixed(0.01)):
                    with attempt:
                        assert between.waiting == 5

                process.send_signal(signal.SIGTERM)
                async for attempt in AsyncRetrying(stop=stop_after_delay(30), wait=wait_fixed(0.01)):
                    with attempt:
                        assert await refuses_connections(port)
                assert process.poll() is None
                await between.open()

                assert [(await request).status_code for request in requests] == [201, *[200] * 4]
                assert await asyncio.to_thread(process.wait, 30) == 0
