"""The fleet over HTTP: who works, on what, and who is told to end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import msgspec
import pytest
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.api.cursors import encode_cursor
from corndog.domain.workers import WorkerFilter
from corndog.settings import Settings
from tests.api.calls import MSGPACK, Api, Fields, done, refused, seconds_between
from tests.faults import plain_url
from tests.servers import running_server


@pytest.fixture(scope="module")
def urls(database_url: str, redis_url: str) -> Iterator[list[str]]:
    """Run two servers on one database."""
    settings = Settings(database_url=database_url, redis_url=redis_url, scheduler=False)
    with running_server(settings) as one, running_server(settings) as other:
        yield [one, other]


@pytest.fixture
async def servers(urls: list[str], queue: str, empty_database_url: str) -> AsyncIterator[tuple[Api, Api]]:
    """Talk to both, without any workers at first."""
    async with (
        httpx.AsyncClient(base_url=urls[0], timeout=30) as one,
        httpx.AsyncClient(base_url=urls[1], timeout=30) as other,
    ):
        yield Api(one, queue), Api(other, queue)


@pytest.fixture
def server(servers: tuple[Api, Api]) -> Api:
    return servers[0]


@pytest.fixture
def names() -> list[str]:
    """Name eight workers that no other test has: what servers remember of names outlives the rows."""
    prefix = uuid4().hex
    return [f"w-{prefix}-{number}" for number in range(8)]


async def beat(api: Api, worker_id: str, *holds: Fields, **fields: Any) -> Fields:  # noqa: ANN401
    deliveries = [{"id": task["id"], "delivery": task["delivery"]} for task in holds]
    return done(await api.post("/v1/tasks/heartbeat", worker_id=worker_id, deliveries=deliveries, **fields))


async def fleet(api: Api, **query: Any) -> dict[str, Fields]:  # noqa: ANN401
    workers = done(await api.client.get("/v1/workers", params=query))["workers"]
    return {worker["worker_id"]: worker for worker in workers}


async def drain(api: Api, **body: Any) -> Fields:  # noqa: ANN401
    return done(await api.post("/v1/workers/drain", **body))


async def until_nobody(api: Api, active_since: str) -> None:
    """Wait until nobody has been seen for so long."""
    poll = AsyncRetrying(retry=retry_if_result(bool), wait=wait_fixed(0.05), stop=stop_after_delay(30))
    assert await poll(fleet, api, active_since=active_since) == {}


# Scenario S43 ---------------------------------------------------------------------------------------


async def test_of_eight_that_vanished_and_eight_that_came_eight_are_alive(servers: tuple[Api, Api]) -> None:
    one, other = servers
    dead, alive = ([f"{kind}-{uuid4().hex[:8]}-{number}" for number in range(8)] for kind in ("a", "b"))
    for worker_id in dead:
        await one.submit()
        [task] = await one.claim(worker_id=worker_id)
        await beat(one, worker_id, task)
    assert set(await fleet(one, active_since="2m")) == set(dead)

    await until_nobody(other, "1.5s")
    await asyncio.gather(*(beat(api, worker_id) for worker_id in alive for api in servers))

    for api in servers:
        assert set(await fleet(api, active_since="1.5")) == set(alive)
        everybody = await fleet(api)
        assert set(everybody) == {*dead, *alive}
        # The dead hide nothing: what they held is there to be seen until a sweep ends it.
        assert [everybody[worker_id]["held"] for worker_id in [*dead, *alive]] == [1] * 8 + [0] * 8
    assert await one.clean_up() == 8
    assert {worker["held"] for worker in (await fleet(one)).values()} == {0}


# What is listed -------------------------------------------------------------------------------------


async def test_a_worker_is_shown_with_what_it_holds(server: Api, names: list[str]) -> None:
    await server.submit(kind="k", work_timeout=60)
    [task] = await server.claim(worker_id=names[0])
    await beat(server, names[0], task, metadata={"host": "h", "cpus": 4})
    await beat(server, names[1])

    found = await fleet(server)

    assert list(found) == names[:2]
    first = found[names[0]]
    task = await server.get(task["id"])
    shown = {
        name: task[name] for name in ("id", "queue", "current_state", "kind", "delivery", "claim_time", "due_time")
    }
    assert first["holds"] == [shown | {"overdue": False}]
    assert (first["held"], first["active"], first["draining"]) == (1, True, False)
    assert first["metadata"] == {"host": "h", "cpus": 4}
    assert seconds_between(task["claim_time"], first["last_seen"]) > 0
    assert first["first_seen"] == first["last_seen"]
    assert (found[names[1]]["holds"], found[names[1]]["metadata"]) == ([], None)


async def test_a_worker_that_sends_no_heartbeat_is_known_by_what_it_holds(server: Api, names: list[str]) -> None:
    for _ in range(2):
        await server.submit()
        [task] = await server.claim(worker_id=names[0])
    await server.submit()
    [nameless] = await server.claim()
    await beat(server, "", nameless)

    found = await fleet(server, active_since="1h")

    assert list(found) == names[:1]
    assert found[names[0]]["last_seen"] == task["claim_time"]
    assert found[names[0]]["held"] == 2


async def test_who_comes_back_under_its_name_hides_nothing_of_the_one_before(server: Api, names: list[str]) -> None:
    await server.submit(work_timeout=0.001)
    [before] = await server.claim(worker_id=names[0])
    await beat(server, names[0], metadata={"process": 1})
    await server.submit()
    [after] = await server.claim(worker_id=names[0])
    await beat(server, names[0], after)

    [worker] = (await fleet(server)).values()

    assert [(held["id"], held["overdue"]) for held in worker["holds"]] == [(before["id"], True), (after["id"], False)]
    await server.release(before["id"], delivery=1)
    [worker] = (await fleet(server)).values()
    assert [held["id"] for held in worker["holds"]] == [after["id"]]


async def test_pages_lead_on_under_the_same_filter(server: Api, names: list[str]) -> None:
    for worker_id in names[:5]:
        await beat(server, worker_id)
    longest = "\U0001f33d" * 255
    await beat(server, longest)

    for query in ({}, {"active_since": "1h"}):
        listed: list[str] = []
        cursor = None
        while True:
            params = query | {"limit": 2} | ({"cursor": cursor} if cursor else {})
            page = done(await server.client.get("/v1/workers", params=params))
            listed += [worker["worker_id"] for worker in page["workers"]]
            if (cursor := page["next_cursor"]) is None:
                break
        assert sorted(listed) == sorted([*names[:5], longest])
    last = done(await server.client.get("/v1/workers", params={"limit": 5, "active_since": "1h"}))["next_cursor"]
    for params in ({"cursor": last}, {"cursor": last, "active_since": "2h"}, {"cursor": "AAAA"}, {"cursor": "%"}):
        refused(await server.client.get("/v1/workers", params=params), 400, "invalid_cursor", "cursor")
    refused(await server.client.get("/v1/tasks", params={"cursor": last}), 400, "invalid_cursor", "cursor")
    forged = encode_cursor("no\0name", WorkerFilter())
    refused(await server.client.get("/v1/workers", params={"cursor": forged}), 400, "invalid_cursor", "cursor")


@pytest.mark.parametrize("value", ["90s", "2m", "1h", "1h30m", "120", "0.5", "1.5h", "3650d", "1m30.25s"])
async def test_times_are_taken_as_people_write_them(api: Api, value: str) -> None:
    done(await api.client.get("/v1/workers", params={"active_since": value}))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        "0s",
        "0h0m",
        "-2m",
        "+2m",
        "2,5",
        "2x",
        "m",
        "2m ",
        " 2m",
        "1h30",
        "1h 30m",
        "1h!30m",
        "1e3",
        "nan",
        "null",
        "2M",
        "1.0000001s",
        "3651d",
        "9" * 10,
        "999999999d",
        "9" * 5000,
        "\u0662m",
        "2m\n",
        "PT2M",
        "1:30",
    ],
)
async def test_what_is_no_time_is_refused(api: Api, value: str) -> None:
    refused(await api.client.get("/v1/workers", params={"active_since": value}), 400, "invalid", "active_since")


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ({"limit": 0}, "invalid", "limit"),
        ({"limit": 101}, "invalid", "limit"),
        ({"cursor": "a" * 1401}, "invalid", "cursor"),
        ({"active": True}, "unknown_field", "active"),
    ],
)
async def test_bad_queries_are_refused(api: Api, query: dict[str, Any], code: str, field: str) -> None:
    refused(await api.client.get("/v1/workers", params=query), 400, code, field)


async def test_messagepack(server: Api, names: list[str]) -> None:
    body = msgspec.msgpack.encode({"worker_id": names[0], "metadata": {"n": 1}})
    headers = {"Content-Type": MSGPACK, "Accept": MSGPACK}
    response = await server.client.post("/v1/tasks/heartbeat", content=body, headers=headers)
    assert msgspec.msgpack.decode(response.content) == {"deliveries": [], "drain": False}

    response = await server.client.get("/v1/workers", headers={"Accept": MSGPACK})
    [worker] = msgspec.msgpack.decode(response.content)["workers"]
    assert worker["metadata"] == {"n": 1}


# Drain ----------------------------------------------------------------------------------------------


async def until_told(api: Api, worker_id: str, *, drains: bool) -> None:
    """Send heartbeats until one tells it: a server looks again after ten seconds."""
    poll = AsyncRetrying(
        retry=retry_if_result(lambda answer: answer["drain"] is not drains),
        wait=wait_fixed(0.1),
        stop=stop_after_delay(30),
    )
    await poll(beat, api, worker_id)


async def test_a_drain_is_told_by_the_heartbeats_of_every_server(servers: tuple[Api, Api], names: list[str]) -> None:
    one, other = servers
    for api in servers:
        for worker_id in names[:2]:
            assert not (await beat(api, worker_id))["drain"]

    assert await drain(one, worker_ids=[names[0]]) == {"workers": [names[0]], "unknown": []}

    assert (await beat(one, names[0]))["drain"]
    await until_told(other, names[0], drains=True)
    for api in servers:
        assert not (await beat(api, names[1]))["drain"]
        assert [worker["draining"] for worker in (await fleet(api)).values()] == [True, False]
    assert await drain(other, worker_ids=[names[0]], drain=False) == {"workers": [names[0]], "unknown": []}
    assert not (await beat(other, names[0]))["drain"]
    await until_told(one, names[0], drains=False)


async def test_all_are_drained_and_those_who_come_later_are_not(server: Api, names: list[str]) -> None:
    await beat(server, names[0])
    await server.submit()
    await server.claim(worker_id=names[1])

    assert await drain(server, all=True) == {"workers": names[:2], "unknown": []}

    told = {worker_id: (await beat(server, worker_id))["drain"] for worker_id in names[:3]}
    assert told == {names[0]: True, names[1]: True, names[2]: False}
    assert await drain(server, all=True, drain=False) == {"workers": names[:3], "unknown": []}
    assert not any([(await beat(server, worker_id))["drain"] for worker_id in names[:3]])


async def test_who_is_not_known_is_named(server: Api, names: list[str]) -> None:
    await beat(server, names[1])
    wanted = [names[2], names[1], names[0], names[1]]
    assert await drain(server, worker_ids=wanted) == {"workers": [names[1]], "unknown": [names[2], names[0]]}
    assert await drain(server, worker_ids=[]) == {"workers": [], "unknown": []}
    assert list(await fleet(server)) == [names[1]]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid", "worker_ids"),
        ({"all": False}, "invalid", "worker_ids"),
        ({"worker_ids": None}, "invalid", "worker_ids"),
        ({"worker_ids": [], "all": True}, "invalid", "all"),
        ({"worker_ids": "a"}, "invalid", "worker_ids"),
        ({"worker_ids": [""]}, "invalid", "worker_ids[0]"),
        ({"worker_ids": ["a", "b\n"]}, "invalid", "worker_ids[1]"),
        ({"worker_ids": ["a" * 256]}, "invalid", "worker_ids[0]"),
        ({"worker_ids": ["a"] * 1001}, "invalid", "worker_ids"),
        ({"all": True, "drain": None}, "invalid", "drain"),
        ({"all": 1}, "invalid", "all"),
        ({"everybody": True}, "unknown_field", "everybody"),
        ([], "invalid", None),
    ],
)
async def test_bad_drains_are_refused(api: Api, body: Any, code: str, field: str | None) -> None:  # noqa: ANN401
    refused(await api.client.post("/v1/workers/drain", json=body), 400, code, field)


# The registry fails ---------------------------------------------------------------------------------


async def test_a_heartbeat_is_answered_without_the_registry(
    server: Api, names: list[str], empty_database_url: str
) -> None:
    await server.submit()
    [task] = await server.claim(worker_id=names[0])
    connection = await asyncpg.connect(plain_url(empty_database_url))
    await connection.execute("ALTER TABLE workers RENAME TO gone")
    try:
        for _ in range(2):
            answer = await beat(server, names[0], task)
            assert [one["status"] for one in answer["deliveries"]] == ["held"]
            assert answer["drain"] is False
    finally:
        await connection.execute("ALTER TABLE gone RENAME TO workers")
        await connection.close()
    assert list(await fleet(server)) == names[:1]


async def test_a_metadata_beyond_its_limit_is_refused(api: Api) -> None:
    refused(
        await api.post("/v1/tasks/heartbeat", worker_id="w", metadata={"a": "x" * 17_000}), 413, "too_large", "metadata"
    )
