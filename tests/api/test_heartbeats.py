"""`POST /v1/tasks/heartbeat`: what a worker holds it goes on holding, and it hears of what it has lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import httpx
import msgspec
import pytest

from corndog.settings import Settings
from tests.api.calls import MSGPACK, Api, Fields, done, refused, unknown_id
from tests.faults import plain_url
from tests.redis_servers import RedisServer, running_redis
from tests.servers import running_server

# Servers, and the two ways to run them ---------------------------------------------------------------


class Servers(NamedTuple):
    """Two servers on one database, and the Redis that they have in common, if there is one."""

    urls: list[str]
    redis: RedisServer | None


@pytest.fixture(scope="module", params=["redis", "without redis"])
def servers(request: pytest.FixtureRequest, database_url: str) -> Iterator[Servers]:
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis()) if request.param == "redis" else None
        settings = Settings(database_url=database_url, redis_url=redis.url if redis else "", scheduler=False)
        yield Servers([stack.enter_context(running_server(settings)) for _ in range(2)], redis)


WITH_REDIS = pytest.mark.parametrize("servers", ["redis"], indirect=True)
"""For what there is only with Redis."""


@pytest.fixture
async def apis(servers: Servers, queue: str) -> AsyncIterator[list[Api]]:
    async with AsyncExitStack() as stack:
        clients = [httpx.AsyncClient(base_url=url, timeout=30) for url in servers.urls]
        yield [Api(await stack.enter_async_context(client), queue) for client in clients]


@pytest.fixture
def api(apis: list[Api]) -> Api:
    return apis[0]


@pytest.fixture
def other(apis: list[Api]) -> Api:
    """Talk to another server than `api` does."""
    return apis[1]


class Deadlines:
    """What the database says of deadlines."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    async def of(self, task: Fields) -> datetime | None:
        due: datetime | None = await self._connection.fetchval(
            "SELECT due_time FROM tasks WHERE id = $1", UUID(task["id"])
        )
        return due

    async def now(self) -> datetime:
        now: datetime = await self._connection.fetchval("SELECT clock_timestamp()")
        return now


@pytest.fixture
async def deadlines(database_url: str) -> AsyncIterator[Deadlines]:
    connection = await asyncpg.connect(plain_url(database_url))
    yield Deadlines(connection)
    await connection.close()


# Calls ----------------------------------------------------------------------------------------------


async def try_beat(api: Api, *deliveries: Any, **fields: Any) -> httpx.Response:  # noqa: ANN401
    return await api.post("/v1/tasks/heartbeat", deliveries=deliveries, **fields)


async def beat(api: Api, *holds: tuple[str, int]) -> list[Fields]:
    """Send a heartbeat for deliveries of tasks; gives the answer to each."""
    answers: list[Fields] = done(
        await try_beat(api, *({"id": task_id, "delivery": delivery} for task_id, delivery in holds))
    )["deliveries"]
    assert [(answer["id"], answer["delivery"]) for answer in answers] == list(holds)
    assert all(answer.keys() == {"id", "delivery", "status", "lease_expires"} for answer in answers)
    assert all(answer["lease_expires"] is None for answer in answers if answer["status"] != "held")
    return answers


async def statuses(api: Api, *holds: tuple[str, int]) -> list[str]:
    return [answer["status"] for answer in await beat(api, *holds)]


async def lease(api: Api, task: Fields, delivery: int = 1) -> datetime | None:
    """Send a heartbeat for a task that is held; tells until when."""
    [answer] = await beat(api, (task["id"], delivery))
    assert answer["status"] == "held"
    return datetime.fromisoformat(answer["lease_expires"]) if answer["lease_expires"] else None


async def is_lost(api: Api, task: Fields) -> bool:
    return await statuses(api, (task["id"], task["delivery"])) == ["lost"]


# What is answered -----------------------------------------------------------------------------------


async def test_a_worker_that_holds_nothing_hears_nothing(api: Api) -> None:
    assert await beat(api) == []
    assert done(await api.post("/v1/tasks/heartbeat")) == {"deliveries": [], "drain": False}
    assert done(await api.post("/v1/tasks/heartbeat", worker_id="w")) == {"deliveries": [], "drain": False}


async def test_each_delivery_is_answered_in_order(api: Api) -> None:
    tasks = [await api.submit_held(current_state=f"s{number}") for number in range(6)]
    await api.cancel(tasks[1]["id"])
    await api.complete(tasks[2]["id"], delivery=1)
    await api.release(tasks[3]["id"], delivery=1)
    ready = await api.submit(current_state="ready")
    parked = await api.submit(delay=1000)
    unknown = unknown_id()
    ids = [*(task["id"] for task in tasks), ready["id"], parked["id"], unknown]

    expected = ["held", "canceled", "lost", "lost", "held", "held", "lost", "lost", "lost"]
    assert await statuses(api, *((task_id, 1) for task_id in ids)) == expected
    # What Redis knows, and what it does not, in one request.
    late = await api.submit_held(current_state="late")
    assert await statuses(api, (late["id"], 1), *((task_id, 1) for task_id in reversed(ids))) == [
        "held",
        *reversed(expected),
    ]


async def test_a_delivery_given_twice_is_answered_twice(api: Api) -> None:
    held, lost = await api.submit_held(), unknown_id()

    for _ in range(2):
        answers = await beat(api, (held["id"], 1), (lost, 1), (held["id"], 1), (held["id"], 2), (lost, 1))

        assert [answer["status"] for answer in answers] == ["held", "lost", "held", "lost", "lost"]
        assert answers[0] == answers[2]


async def test_only_the_delivery_that_holds_it_is_held(api: Api) -> None:
    first = await api.submit_held()
    assert await lease(api, first) is not None
    await api.release(first["id"], delivery=1)
    [second] = await api.claim()

    for _ in range(2):
        holds = [(first["id"], delivery) for delivery in (1, 2, 3, 2**31, 2**63 - 1)]
        assert await statuses(api, *holds) == ["lost", "held", "lost", "lost", "lost"]
    assert second["delivery"] == 2


async def test_a_cancel_is_told_to_the_last_delivery_only(api: Api) -> None:
    task = await api.submit_held()
    await api.release(task["id"], delivery=1)
    await api.claim()
    await api.cancel(task["id"])

    assert await statuses(api, (task["id"], 1), (task["id"], 2), (task["id"], 3)) == ["lost", "canceled", "lost"]


async def test_it_takes_messagepack(api: Api) -> None:
    held = await api.submit_held()
    body = msgspec.msgpack.encode({"deliveries": [{"id": held["id"], "delivery": 1}]})

    response = await api.client.post(
        "/v1/tasks/heartbeat", content=body, headers={"Content-Type": MSGPACK, "Accept": MSGPACK}
    )

    assert response.headers["content-type"] == MSGPACK
    [answer] = msgspec.msgpack.decode(response.content)["deliveries"]
    assert (answer["id"], answer["status"]) == (held["id"], "held")


async def test_a_thousand_are_answered_and_more_are_refused(api: Api) -> None:
    starter = await api.submit_held(current_state="start")
    wanted = [{"queue": api.queue}] * 999
    await api.complete(starter["id"], delivery=1, next_tasks=wanted)
    held = await api.claim(count=1000)
    holds = [(task["id"], 1) for task in held] + [(unknown_id(), 1)]

    assert await statuses(api, *holds) == ["held"] * 999 + ["lost"]
    assert await statuses(api, *reversed(holds)) == ["lost"] + ["held"] * 999
    one_too_many = [{"id": task_id, "delivery": delivery} for task_id, delivery in [*holds, holds[0]]]
    refused(await try_beat(api, *one_too_many), 400, "invalid", "deliveries")


ANY = "6f3f5b68-5f0b-4d3c-8f43-1f1f9d8b7a11"


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"deliveries": [{"id": ANY, "delivery": 0}]}, "invalid", "deliveries[0].delivery"),
        ({"deliveries": [{"id": ANY, "delivery": -1}]}, "invalid", "deliveries[0].delivery"),
        ({"deliveries": [{"id": ANY, "delivery": 2**63}]}, "invalid", "deliveries[0].delivery"),
        ({"deliveries": [{"id": ANY, "delivery": 1.5}]}, "invalid", "deliveries[0].delivery"),
        ({"deliveries": [{"id": ANY, "delivery": "1"}]}, "invalid", "deliveries[0].delivery"),
        ({"deliveries": [{"id": ANY, "delivery": None}]}, "invalid", "deliveries[0].delivery"),
        ({"deliveries": [{"id": ANY}]}, "invalid", "deliveries[0].delivery"),
        ({"deliveries": [{"delivery": 1}]}, "invalid", "deliveries[0].id"),
        ({"deliveries": [{"id": "x", "delivery": 1}]}, "invalid", "deliveries[0].id"),
        ({"deliveries": [{"id": 1, "delivery": 1}]}, "invalid", "deliveries[0].id"),
        ({"deliveries": [{"id": ANY, "delivery": 1, "x": 1}]}, "unknown_field", "deliveries[0].x"),
        ({"deliveries": [ANY]}, "invalid", "deliveries[0]"),
        ({"deliveries": {}}, "invalid", "deliveries"),
        ({"deliveries": None}, "invalid", "deliveries"),
        ({"deliveries": [], "x": 1}, "unknown_field", "x"),
        ({"worker_id": 1}, "invalid", "worker_id"),
        ({"worker_id": "a\x00"}, "invalid", "worker_id"),
        ({"worker_id": "a" * 1000}, "invalid", "worker_id"),
        ({"metadata": "host"}, "invalid", "metadata"),
        ({"metadata": [1]}, "invalid", "metadata"),
        ({"metadata": {"big": 2**64}}, "invalid", "metadata"),
        ([], "invalid", None),
    ],
)
async def test_bad_values_are_refused(api: Api, body: Any, code: str, field: str | None) -> None:  # noqa: ANN401
    refused(await api.client.post("/v1/tasks/heartbeat", json=body), 400, code, field)


# Deadlines ------------------------------------------------------------------------------------------


async def test_the_deadline_is_that_of_the_database(api: Api, deadlines: Deadlines) -> None:
    held = await api.submit_held(work_timeout=60)

    before = await deadlines.now()
    expires = await lease(api, held)
    after = await deadlines.now()

    assert expires is not None
    assert expires == await deadlines.of(held)
    assert before + timedelta(seconds=60) <= expires <= after + timedelta(seconds=60)
    assert expires > datetime.fromisoformat(held["due_time"])


async def test_a_deadline_is_kept_and_half_of_it_is_left_whenever_it_is_told(api: Api, deadlines: Deadlines) -> None:
    held = await api.submit_held(work_timeout=1.5)
    last = datetime.fromisoformat(held["due_time"])
    written: set[datetime] = set()

    # As long as it takes to see a few extensions.
    async with asyncio.timeout(60):
        while len(written) < 4:
            before = await deadlines.now()
            expires = await lease(api, held)
            committed = await deadlines.of(held)
            assert expires is not None
            assert committed is not None
            assert last <= expires <= committed
            assert expires - before >= timedelta(seconds=0.75)
            last = expires
            written.add(committed)


async def test_with_redis_heartbeats_seldom_write(api: Api, deadlines: Deadlines, servers: Servers) -> None:
    held = await api.submit_held(work_timeout=120)
    written = {await deadlines.of(held)}
    for _ in range(100):
        assert await lease(api, held) is not None
        written.add(await deadlines.of(held))

    # The first one does, and then none for half a minute.
    assert len(written) <= (4 if servers.redis else 101)
    assert len(written) >= (2 if servers.redis else 101)


async def test_a_lease_that_another_server_wrote_down_is_known(api: Api, other: Api, servers: Servers) -> None:
    held = await api.submit_held(work_timeout=120)

    told = [await lease(server, held) for server in (api, other, api, other)]

    assert len(set(told)) == (1 if servers.redis else 4)


async def test_a_hold_without_a_clock_has_no_deadline(api: Api, deadlines: Deadlines) -> None:
    held = await api.submit_held(work_timeout=0)

    for _ in range(3):
        assert await lease(api, held) is None
    assert await deadlines.of(held) is None
    assert await api.clean_up() == 0
    await api.complete(held["id"], delivery=1)
    assert await is_lost(api, held)


async def test_heartbeats_keep_a_task_from_the_sweep(api: Api) -> None:
    held, abandoned = [await api.submit_held(current_state=state, work_timeout=60) for state in "ab"]
    expires = await lease(api, held)
    assert expires is not None

    assert await api.clean_up(max(held["due_time"], abandoned["due_time"])) == 1

    assert await statuses(api, (held["id"], 1), (abandoned["id"], 1)) == ["held", "lost"]
    assert await api.clean_up((expires - timedelta(microseconds=1)).isoformat()) == 0
    assert await api.clean_up() == 1
    assert await is_lost(api, held)


async def test_a_progress_write_with_a_timeout_changes_the_lease(api: Api, other: Api, deadlines: Deadlines) -> None:
    held = await api.submit_held(work_timeout=60)
    await lease(api, held)

    for timeout in (1000, 20, 3000):
        await other.update(held["id"], delivery=1, timeout=timeout)
        before = await deadlines.now()
        expires = await lease(api, held)
        assert expires is not None
        assert expires == await deadlines.of(held)
        assert expires - before >= timedelta(seconds=timeout)

    await other.update(held["id"], delivery=1, timeout=0)
    assert await lease(api, held) is None
    await other.update(held["id"], delivery=1, timeout=50)
    assert await lease(api, held) == await deadlines.of(held) is not None


async def test_a_progress_write_without_a_timeout_keeps_the_lease(api: Api, deadlines: Deadlines) -> None:
    held = await api.submit_held(work_timeout=60)
    first = await lease(api, held)
    await api.update(held["id"], delivery=1, payload="progress")

    again = await lease(api, held)

    assert first is not None
    assert again is not None
    assert again >= first
    assert again == await deadlines.of(held)


# Whoever ends a hold ends its lease ------------------------------------------------------------------


async def complete(api: Api, task: Fields) -> None:
    await api.complete(task["id"], delivery=1)


async def release(api: Api, task: Fields) -> None:
    await api.release(task["id"], delivery=1)


async def release_with_a_delay(api: Api, task: Fields) -> None:
    await api.release(task["id"], delivery=1, delay=1000)


async def update(api: Api, task: Fields) -> None:
    await api.update(task["id"], delivery=1, new_state="elsewhere")


async def cancel(api: Api, task: Fields) -> None:
    await api.cancel(task["id"])


async def sweep(api: Api, _: Fields) -> None:
    assert await api.clean_up() == 1


async def sweep_to_death(api: Api, task: Fields) -> None:
    await sweep(api, task)
    assert (await api.get(task["id"]))["phase"] == "failed"


async def claim_again(api: Api, task: Fields) -> None:
    await release(api, task)
    assert [claimed["delivery"] for claimed in await api.claim()] == [2]


ENDS = [complete, release, release_with_a_delay, update, cancel, sweep, sweep_to_death, claim_again]


@pytest.mark.parametrize("end", ENDS)
async def test_the_next_heartbeat_tells_that_others_have_ended_it(
    api: Api, other: Api, end: Callable[[Api, Fields], Awaitable[None]]
) -> None:
    held = await api.submit_held(work_timeout=60, max_lost=1 if end is sweep_to_death else None)
    await lease(api, held)
    await lease(other, held)

    await end(other, held)

    expected = ["canceled" if end is cancel else "lost"]
    assert await statuses(api, (held["id"], 1)) == expected
    assert await statuses(other, (held["id"], 1)) == expected


async def test_a_replayed_end_drops_the_lease_again(api: Api, other: Api) -> None:
    held = await api.submit_held()
    await api.complete(held["id"], delivery=1)
    assert await is_lost(api, held)

    assert (await other.complete(held["id"], delivery=1))["replayed"]

    assert await is_lost(api, held)


# Redis forgets, or is wrong ---------------------------------------------------------------------------


@WITH_REDIS
async def test_after_a_flush_the_database_is_asked(api: Api, deadlines: Deadlines, servers: Servers) -> None:
    assert servers.redis
    held, ended = [await api.submit_held(current_state=state) for state in "ab"]
    first = await lease(api, held)
    await lease(api, ended)
    await api.complete(ended["id"], delivery=1)

    for _ in range(3):
        servers.redis.flush()
        again = await lease(api, held)
        assert again == await deadlines.of(held)
        assert first is not None
        assert again is not None
        assert again > first
        first = again
        assert await is_lost(api, ended)


@WITH_REDIS
async def test_a_wrong_lease_lets_no_write_through(api: Api, servers: Servers, database_url: str) -> None:
    assert servers.redis
    held = await api.submit_held(work_timeout=60)
    expires = await lease(api, held)
    # Whoever wrote this died before it dropped the lease.
    connection = await asyncpg.connect(plain_url(database_url))
    await connection.execute("UPDATE tasks SET delivery = 2 WHERE id = $1", UUID(held["id"]))
    await connection.close()

    assert await lease(api, held) == expires
    refused(await api.try_complete(held["id"], delivery=1), 409, "stale_delivery")
    refused(await api.try_update(held["id"], delivery=1, timeout=5), 409, "stale_delivery")

    servers.redis.flush()
    assert await is_lost(api, held)


# Many at once ---------------------------------------------------------------------------------------


async def test_heartbeats_of_the_same_holds_in_any_order_don_t_block_each_other(api: Api, other: Api) -> None:
    held = [await api.submit_held(current_state=f"s{number}", work_timeout=60) for number in range(30)]
    holds = [(task["id"], 1) for task in held]

    async def beat_often(server: Api, turned: list[tuple[str, int]]) -> None:
        for _ in range(5):
            assert await statuses(server, *turned) == ["held"] * 30

    await asyncio.gather(*(beat_often(server, holds[::way]) for server in (api, other) for way in (1, -1) * 3))


async def test_a_heartbeat_that_races_with_an_end_is_right_afterwards(api: Api, other: Api) -> None:
    for number in range(20):
        held = await api.submit_held(current_state=f"s{number}", work_timeout=60)
        beats = [asyncio.create_task(statuses(server, (held["id"], 1))) for server in (api, other) * 2]
        await other.complete(held["id"], delivery=1)

        assert {status for beat in beats for status in await beat} <= {"held", "lost"}
        refused(await api.try_update(held["id"], delivery=1, timeout=5), 409, "other_request")
