"""The database goes away and comes back: calls are answered, and nothing needs a restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from uuid import UUID

import asyncpg
import httpx
import pytest
from sqlalchemy import make_url
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.settings import Settings
from tests.api.calls import Api, done, refused, unknown_id
from tests.api.lines import Line, line
from tests.faults import plain_url
from tests.servers import free_port, start_server, stop_server

DEADLINE = 1.0
MARGIN = 20.0
"""Seconds beyond what a call may take on a quiet machine: this tells slow from endless, not fast from slow."""


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    port = free_port()
    process = await asyncio.to_thread(start_server, settings, port)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        await asyncio.to_thread(stop_server, process)


@pytest.fixture(scope="module")
async def between(database_url: str) -> AsyncIterator[Line]:
    # A socket's path is short, and PostgreSQL's data is not in a home directory.
    with TemporaryDirectory(prefix="line-", dir="/tmp") as directory:
        async with line(database_url, Path(directory)) as opened:
            yield opened


@pytest.fixture(scope="module")
async def far_client(between: Line) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(
        database_url=between.url, retry_deadline=DEADLINE, pool_timeout=1, statement_timeout=1, pool_size=4
    )
    async with served(settings) as client:
        yield client


@pytest.fixture
async def far(far_client: httpx.AsyncClient, between: Line, queue: str) -> AsyncIterator[Api]:
    """Talk to a server whose line to the database can be cut; it is mended afterwards."""
    yield Api(far_client, queue)
    await between.open()


async def ask_everything(api: Api) -> list[httpx.Response]:
    """Make every call that needs the database, at once."""
    path = f"/v1/tasks/{unknown_id()}"
    post, get = api.client.post, api.client.get
    return await asyncio.gather(
        post("/v1/tasks", json={"queue": api.queue}),
        post("/v1/tasks/raw", params={"queue": api.queue}, content=b"x"),
        post("/v1/tasks/next", json={"queue": api.queue}),
        post("/v1/tasks/next", json={"queues": [api.queue, "other"]}),
        get("/v1/tasks"),
        get(path),
        get(f"{path}/payload"),
        get(f"{path}/result"),
        api.client.patch(path, json={"delivery": 1}),
        post(f"{path}/complete", json={"delivery": 1}),
        post(f"{path}/complete", json={"delivery": 1, "next_task": {"queue": api.queue}}),
        post(f"{path}/release", json={"delivery": 1}),
        post(f"{path}/cancel"),
        post("/v1/cleanup-timed-out"),
        get("/v1/queues"),
        get("/v1/queues/task-counts"),
        get("/v1/queues/state-counts"),
        get("/v1/state-counts", params={"queue": api.queue}),
    )


def all_are_unavailable(responses: list[httpx.Response]) -> bool:
    for response in responses:
        refused(response, 503, "unavailable")
        assert int(response.headers["retry-after"]) >= 1
    return True


async def until_ready(client: httpx.AsyncClient) -> None:
    poll = AsyncRetrying(
        retry=retry_if_result(lambda response: response.status_code != 200),
        wait=wait_fixed(0.05),
        stop=stop_after_delay(30),
    )
    await poll(client.get, "/readyz")


async def test_without_the_database_every_call_is_a_503_in_bounded_time(far: Api, between: Line) -> None:
    before = await far.submit()
    await between.cut()

    began = monotonic()
    assert all_are_unavailable(await ask_everything(far))
    took = monotonic() - began

    assert took < DEADLINE + MARGIN
    await between.open()
    await until_ready(far.client)
    assert [task["id"] for task in await far.list()] == [before["id"]]
    assert (await far.claim())[0]["id"] == before["id"]


async def test_readiness_tells_at_once_and_liveness_stays(far: Api, between: Line) -> None:
    await between.cut()

    for _ in range(3):
        response = await asyncio.wait_for(far.client.get("/readyz"), 2 + MARGIN)
        assert response.status_code == 503
        assert response.json() == {"status": "unavailable", "checks": {"database": "unavailable"}, "warnings": []}
        assert done(await far.client.get("/healthz")) == {"status": "ok"}
    await between.open()

    await until_ready(far.client)


async def test_bad_requests_are_refused_without_the_database(far: Api, between: Line) -> None:
    await between.cut()

    refused(await far.try_submit(queue=""), 400, "invalid", "queue")
    refused(await far.try_get("x"), 400, "invalid", "id")


async def test_calls_that_wait_are_answered_when_the_database_comes_back_in_time(database_url: str, queue: str) -> None:
    with TemporaryDirectory(prefix="line-", dir="/tmp") as directory:
        async with (
            line(database_url, Path(directory)) as between,
            served(Settings(database_url=between.url, retry_deadline=60)) as client,
        ):
            api = Api(client, queue)
            await between.cut()
            waiting = [asyncio.create_task(api.try_submit(kind=str(number))) for number in range(20)]
            assert (await client.get("/readyz")).status_code == 503
            await between.open()

            answers = [(await response).status_code for response in waiting]

            assert answers == [201] * 20
            assert sorted(int(task["kind"]) for task in await api.list()) == list(range(20))


async def test_connections_that_the_database_closed_are_not_used_again(far: Api, between: Line) -> None:
    for _ in range(3):
        # As many as the pool has.
        await asyncio.gather(*(far.list() for _ in range(16)))
        await between.cut()
        await between.open()
        # Whatever the server's loop was told before, it has seen after another request.
        await far.client.get("/healthz")
        assert [(await far.client.get("/readyz")).status_code for _ in range(8)] == [200] * 8
        await asyncio.gather(*(far.list() for _ in range(16)))


async def test_a_silent_database_holds_nobody_for_ever(far: Api, between: Line) -> None:
    await far.submit()
    between.block()

    assert (await asyncio.wait_for(far.client.get("/readyz"), 5 + MARGIN)).status_code == 503
    assert done(await far.client.get("/healthz")) == {"status": "ok"}
    assert all_are_unavailable(await ask_everything(far))
    await between.open()

    await until_ready(far.client)
    assert (await far.try_submit()).status_code == 201


async def test_a_database_that_takes_no_connections(far: Api, database_url: str, database_admin_url: str) -> None:
    name = make_url(database_url).database
    admin = await asyncpg.connect(database_admin_url)
    terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
    before = await far.submit()
    await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    await admin.execute(terminate, name)

    answers = await ask_everything(far)
    ready = await far.client.get("/readyz")
    await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    await admin.close()

    assert all_are_unavailable(answers)
    assert ready.status_code == 503
    await until_ready(far.client)
    assert [task["id"] for task in await far.claim()] == [before["id"]]


async def test_sessions_that_are_killed_under_load_lose_and_double_nothing(
    client: httpx.AsyncClient, database_url: str, database_admin_url: str, queue: str
) -> None:
    api = Api(client, queue)
    admin = await asyncpg.connect(database_admin_url)
    terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
    lives, clients = 20, 8
    submitted: list[str] = []
    one_kill = asyncio.Lock()

    async def live(client: int) -> None:
        for number in range(lives):
            task = await api.submit(kind=f"{client}-{number}")
            submitted.append(task["id"])
            if len(submitted) % 8 == 0:
                async with one_kill:
                    await admin.execute(terminate, make_url(database_url).database)
            for held in await api.claim():
                next_task = {"queue": api.queue, "current_state": "next", "kind": held["kind"]}
                completed = await api.complete(held["id"], delivery=held["delivery"], next_task=next_task)
                assert len(completed["next_tasks"]) == 1

    async with asyncio.TaskGroup() as all_clients:
        for client_number in range(clients):
            all_clients.create_task(live(client_number))
    await admin.close()

    while claimed := await api.claim(count=100):
        for held in claimed:
            await api.complete(held["id"], delivery=held["delivery"])
    live_tasks = await api.list(limit=1000)
    archived = await api.list(archived=True, limit=1000)
    assert len(submitted) == len(set(submitted)) == clients * lives
    assert {task["id"] for task in archived} == set(submitted)
    assert {task["delivery"] for task in archived} == {1}
    assert {task["current_state"] for task in live_tasks} == {"next"}
    assert len({task["kind"] for task in live_tasks}) == len(live_tasks)


async def test_readiness_warns_of_holds_that_nobody_sweeps(database_url: str, queue: str) -> None:
    async with served(Settings(database_url=database_url)) as client:
        api = Api(client, queue)
        held = await api.submit_held()
        database = await asyncpg.connect(plain_url(database_url))
        overdue = "UPDATE tasks SET due_time = statement_timestamp() - $2::interval WHERE id = $1"
        warnings = []
        for since in (50, 3600):
            await database.execute(overdue, UUID(held["id"]), timedelta(seconds=since))
            ready = done(await client.get("/readyz"))
            assert ready["status"] == "ok"
            warnings.append(ready["warnings"])
        await database.close()

        assert warnings[0] == []
        [warning] = warnings[1]
        assert "cleanup-timed-out" in warning
        assert await api.clean_up(None) == 1
        assert done(await client.get("/readyz"))["warnings"] == []


# Redis, which a server can do without ------------------------------------------


async def test_without_redis_it_is_degraded_and_works(database_url: str, queue: str) -> None:
    settings = Settings(database_url=database_url, redis_url=f"redis://127.0.0.1:{free_port()}")
    async with served(settings) as client:
        ready = done(await client.get("/readyz"))

        assert (ready["status"], ready["checks"]) == ("degraded", {"database": "ok", "redis": "unavailable"})
        api = Api(client, queue)
        held = await api.submit_held()
        assert (await api.complete(held["id"], delivery=1))["task"]["phase"] == "completed"


async def test_a_silent_redis_holds_nobody_up(database_url: str, queue: str) -> None:
    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        writer.close()

    silent = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with served(Settings(database_url=database_url, redis_url=f"redis://127.0.0.1:{port}")) as client:
        ready = done(await asyncio.wait_for(client.get("/readyz"), MARGIN))

        assert (ready["status"], ready["checks"]["redis"]) == ("degraded", "unavailable")
        assert (await Api(client, queue).submit())["phase"] == "ready"
    silent.close()
