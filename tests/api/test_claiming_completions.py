"""Completions that carry the next claim: design section 8 (fewer requests) and section 9."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, TypeVar
from uuid import UUID

import httpx
import msgspec
import pytest

from corndog.app import create_app
from corndog.settings import Settings
from corndog.store.engine import Connection, Database
from corndog.store.statements import load
from tests.api.calls import MSGPACK, PROBLEM, Api, Fields, after, done, refused
from tests.api.lines import Line, line
from tests.api.wires import HoldUp, Wire, until
from tests.faults import FaultyDatabase
from tests.redis_servers import running_redis
from tests.servers import free_port, running_server, start_server, stop_server

LONG = 50
"""Seconds to wait for what is to come much sooner."""

_T = TypeVar("_T")

Complete = Callable[..., Coroutine[None, None, httpx.Response]]


async def one(api: Api, task: Fields, **more: Any) -> httpx.Response:  # noqa: ANN401
    """Complete a task by its own call."""
    fields = {name: value for name, value in more.items() if name != "query"}
    return await api.client.post(
        f"/v1/tasks/{task['id']}/complete", json={"delivery": 1} | fields, params=more.get("query", {})
    )


async def many(api: Api, task: Fields, **more: Any) -> httpx.Response:  # noqa: ANN401
    """Complete a task, and another with it."""
    claim = {"claim": more.pop("claim")} if "claim" in more else {}
    query = more.pop("query", {})
    other = await api.submit_held(current_state="other")
    items = [{"id": other["id"], "delivery": 1}, {"id": task["id"], "delivery": 1} | more]
    return await api.client.post("/v1/tasks/complete", json={"tasks": items} | claim, params=query)


async def atomic(api: Api, task: Fields, **more: Any) -> httpx.Response:  # noqa: ANN401
    """Complete a task and another, both or none."""
    return await many(api, task, query={"atomic": "true"}, **more)


EACH = pytest.mark.parametrize("complete", [one, many, atomic])


async def is_completed(api: Api, task: Fields) -> bool:
    phase: str = (await api.get(task["id"]))["phase"]
    return phase == "completed"


@EACH
async def test_the_next_task_comes_with_the_answer(api: Api, complete: Complete) -> None:
    held = await api.submit_held(current_state="first")
    following = await api.submit(payload={"n": 1})
    claim = {"queue": api.queue, "worker_id": "w", "override_timeout": 7, "override_current_state": "mine"}

    answer = done(await complete(api, held, claim=claim))

    assert await is_completed(api, held)
    assert answer["claimed"].keys() == {"tasks"}
    [task] = answer["claimed"]["tasks"]
    assert (task["id"], task["delivery"], task["held_by"], task["payload"]) == (following["id"], 1, "w", {"n": 1})
    assert (task["current_state"], task["timeout"], task["phase"]) == ("mine", 7.0, "held")
    assert (await api.get(following["id"]))["held_by"] == "w"


@EACH
async def test_a_worker_goes_through_its_queue_by_completions_alone(api: Api, complete: Complete) -> None:
    ids = [(await api.submit())["id"] for _ in range(5)]
    [task] = await api.claim()
    seen = [task["id"]]
    while True:
        claimed = done(await complete(api, task, claim={"queue": api.queue, "worker_id": "w"}))["claimed"]["tasks"]
        if not claimed:
            break
        [task] = claimed
        seen.append(task["id"])

    assert seen == ids
    assert await api.counts() == {}


@EACH
async def test_without_a_claim_nothing_is_said_of_one(api: Api, complete: Complete) -> None:
    assert "claimed" not in done(await complete(api, await api.submit_held(), claim=None))
    assert "claimed" not in done(await complete(api, await api.submit_held()))


@EACH
async def test_an_empty_queue_is_answered_at_once(api: Api, complete: Complete) -> None:
    answer = done(await complete(api, await api.submit_held(), claim={"queue": api.queue}))

    assert answer["claimed"] == {"tasks": []}


@EACH
async def test_it_takes_as_many_as_it_asks_for_from_all_queues(api: Api, complete: Complete) -> None:
    held = await api.submit_held(current_state="first")
    queues = [f"{api.queue}-{letter}" for letter in "ab"]
    low, high, more = [await api.submit(queue=queues[n % 2], priority=p) for n, p in enumerate((1, 5, 0))]

    answer = done(await complete(api, held, claim={"queues": queues, "count": 2}))

    assert [task["id"] for task in answer["claimed"]["tasks"]] == [high["id"], low["id"]]
    assert (await api.get(more["id"]))["phase"] == "ready"


@EACH
async def test_its_own_next_task_can_be_claimed_at_once(api: Api, complete: Complete) -> None:
    answer = done(
        await complete(
            api,
            await api.submit_held(),
            next_task={"queue": api.queue, "current_state": "next", "payload": 2},
            claim={"queue": api.queue, "current_state": "next"},
        )
    )

    [task] = answer["claimed"]["tasks"]
    made = answer["next_tasks"] if complete is one else answer["results"][1]["next_tasks"]
    assert ([task["id"]], task["payload"]) == (made, 2)


async def test_it_can_carry_what_a_task_depends_on(api: Api) -> None:
    await api.submit_job({"name": "parent"}, after("parent", name="child"))
    [parent] = await api.claim()

    answer = done(await one(api, parent, result=[1], claim={"queue": api.queue, "include": ["dependencies"]}))

    [child] = answer["claimed"]["tasks"]
    assert child["name"] == "child"
    assert child["dependencies"]["parent"]["result"] == [1]


MALFORMED: list[tuple[Any, str, str | None]] = [
    ({"count": 0}, "invalid", "claim.count"),
    ({"count": 1001}, "invalid", "claim.count"),
    ({"wait": 61}, "invalid", "claim.wait"),
    ({"wait": -1}, "invalid", "claim.wait"),
    ({"queue": ""}, "invalid", "claim.queue"),
    ({"queue": "a\n"}, "invalid", "claim.queue"),
    ({"queues": []}, "invalid", "claim.queues"),
    ({"queue": "a", "queues": ["b"]}, "invalid", "claim.queues"),
    ({"queues": ["a", "b\n"]}, "invalid", "claim.queues"),
    ({"worker_id": 1}, "invalid", "claim.worker_id"),
    ({"worker_id": "a\n"}, "invalid", "claim.worker_id"),
    ({"current_state": "\u0000"}, "invalid", "claim.current_state"),
    ({"override_timeout": -1}, "invalid", "claim.override_timeout"),
    ({"override_timeout": 0.1234567}, "invalid", "claim.override_timeout"),
    ({"include": ["x"]}, "invalid", "claim.include[0]"),
    ({"x": 1}, "unknown_field", "claim.x"),
    ([], "invalid", "claim"),
    ("q", "invalid", "claim"),
]


@EACH
@pytest.mark.parametrize(("claim", "code", "field"), MALFORMED, ids=lambda value: str(value)[:30])
async def test_a_malformed_claim_is_refused_before_anything_is_done(
    api: Api, complete: Complete, claim: object, code: str, field: str
) -> None:
    held = await api.submit_held()

    refused(await complete(api, held, claim=claim, next_task={"queue": api.queue}), 400, code, field)

    assert (await api.get(held["id"]))["phase"] == "held"
    assert "submitted" not in await api.counts()


async def test_a_refused_completion_claims_nothing(api: Api) -> None:
    held = await api.submit_held(current_state="first")
    ready = await api.submit()

    refused(await one(api, held, delivery=2, claim={"queue": api.queue}), 409, "stale_delivery")
    refused(await one(api, held, next_task={"timeout": 5}, claim={"queue": api.queue}), 400, "invalid",
            "next_task.timeout")  # fmt: skip
    refused(await atomic(api, held, delivery=2, claim={"queue": api.queue}), 409, "stale_delivery", "tasks[1]")

    assert (await api.get(ready["id"])) == ready


async def test_a_refused_item_keeps_nobody_from_the_next_task(api: Api) -> None:
    held = await api.submit_held(current_state="first")
    ready = await api.submit()

    answer = done(await many(api, held, delivery=2, claim={"queue": api.queue}))

    assert [result["status"] for result in answer["results"]] == [200, 409]
    assert [task["id"] for task in answer["claimed"]["tasks"]] == [ready["id"]]


@EACH
async def test_a_repeat_claims_again(api: Api, complete: Complete) -> None:
    """The first claim's tasks are held by a delivery that nobody heard of, as after any claim whose answer was lost."""
    held = await api.submit_held(current_state="first")
    first, second = await api.submit(), await api.submit()
    assert [task["id"] for task in done(await complete(api, held, claim={"queue": api.queue}))["claimed"]["tasks"]] == [
        first["id"]
    ]

    again = done(await one(api, held, claim={"queue": api.queue}))

    assert again["replayed"] is True
    assert [task["id"] for task in again["claimed"]["tasks"]] == [second["id"]]


async def test_messagepack(api: Api) -> None:
    held = await api.submit_held(current_state="first")
    await api.submit(payload_base64="AAE=")
    body = msgspec.msgpack.encode({"delivery": 1, "claim": {"queue": api.queue}})

    response = await api.client.post(
        f"/v1/tasks/{held['id']}/complete", content=body, headers={"Content-Type": MSGPACK, "Accept": MSGPACK}
    )

    [task] = msgspec.msgpack.decode(response.content)["claimed"]["tasks"]
    assert task["payload_base64"] == b"\x00\x01"


async def test_a_minimal_answer_keeps_what_was_claimed(api: Api) -> None:
    held = await api.submit_held(current_state="first")
    await api.submit(payload=1)

    response = await api.client.post(
        "/v1/tasks/complete",
        json={"tasks": [{"id": held["id"], "delivery": 1}], "claim": {"queue": api.queue}},
        headers={"Prefer": "return=minimal"},
    )

    answer = done(response)
    assert "task" not in answer["results"][0]
    assert answer["claimed"]["tasks"][0]["payload"] == 1


# While it waits ---------------------------------------------------------------


@EACH
async def test_it_waits_for_the_next_task_while_the_completion_stands(api: Api, complete: Complete) -> None:
    held = await api.submit_held(current_state="first")
    waiting = asyncio.create_task(complete(api, held, claim={"queue": api.queue, "wait": LONG}))
    await until(partial(is_completed, api, held))
    assert not waiting.done()

    began = monotonic()
    task = await api.submit()
    answer = done(await waiting)

    assert [claimed["id"] for claimed in answer["claimed"]["tasks"]] == [task["id"]]
    assert monotonic() - began < LONG / 2


async def test_it_is_empty_after_the_wait(api: Api) -> None:
    answer = done(await one(api, await api.submit_held(), claim={"queue": api.queue, "wait": 0.2}))

    assert answer["claimed"] == {"tasks": []}


@pytest.mark.parametrize("is_single", [True, False])
async def test_a_client_that_hangs_up_leaves_the_completion_and_no_held_task(
    api: Api, api_database_url: str, *, is_single: bool
) -> None:
    held = await api.submit_held(current_state="first")
    async with Wire(api.client) as wire:
        claim = {"queue": api.queue, "wait": LONG, "worker_id": "gone"}
        if is_single:
            await wire.send(f"/v1/tasks/{held['id']}/complete", delivery=1, claim=claim)
        else:
            await wire.send("/v1/tasks/complete", tasks=[{"id": held["id"], "delivery": 1}], claim=claim)
        await until(partial(is_completed, api, held))
        async with HoldUp(api_database_url, "tasks") as claims:
            task = asyncio.create_task(api.submit())
            await claims.until_one_waits()
            await wire.hang_up()
    submitted = await task

    async def is_released() -> bool:
        return bool((await api.get(submitted["id"]))["phase"] == "ready")

    await until(is_released)
    assert await is_completed(api, held)
    [claimed] = await api.claim(wait=LONG)
    assert claimed["id"] == submitted["id"]


# What goes wrong with the claim -----------------------------------------------


class Unwilling(FaultyDatabase):
    """A database that fails at claims only."""

    error: Exception = RuntimeError("injected")

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        if query == load("claim_scan"):
            raise self.error
        return await run()


@pytest.fixture
async def unwilling(api_database_url: str) -> AsyncIterator[Unwilling]:
    database = Unwilling(api_database_url, retry_deadline=0.2)
    yield database
    await database.close()


@pytest.fixture
async def inner(unwilling: Database, api_database_url: str, queue: str) -> AsyncIterator[Api]:
    """Talk to a server in this process whose claims fail."""
    app = create_app(Settings(database_url=api_database_url, scheduler=False), unwilling)
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://inner") as client:
        yield Api(client, queue)


@EACH
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(RuntimeError("injected"), 500, "internal_error"), (OSError("injected"), 503, "unavailable")],
)
async def test_an_error_of_the_claim_leaves_the_completion(
    api: Api, inner: Api, unwilling: Unwilling, complete: Complete, error: Exception, status: int, code: str
) -> None:
    unwilling.error = error
    held = await api.submit_held(current_state="first")
    ready = await api.submit()
    at = Api(inner.client, api.queue)
    if complete is not one:
        at.submit_held = api.submit_held  # type: ignore[method-assign]

    answer = done(await complete(at, held, result=1, claim={"queue": api.queue}))

    assert answer["claimed"].keys() == {"error"}
    problem = answer["claimed"]["error"]
    request = httpx.Request("POST", "http://inner/v1/tasks/next")
    refused(
        httpx.Response(problem["status"], json=problem, headers={"content-type": PROBLEM}, request=request),
        status,
        code,
    )
    assert "injected" not in problem["detail"]
    assert (await api.get(held["id"], include="result"))["result"] == 1
    assert await api.get(ready["id"]) == ready


@pytest.fixture(scope="module")
async def between(database_url: str) -> AsyncIterator[Line]:
    with TemporaryDirectory(prefix="line-", dir="/tmp") as directory:
        async with line(database_url, Path(directory)) as opened:
            yield opened


@pytest.fixture
async def far_client(between: Line) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(database_url=between.url, retry_deadline=0.5, pool_timeout=1, statement_timeout=1, pool_size=4)
    port = free_port()
    process = await asyncio.to_thread(start_server, settings, port)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=LONG) as client:
            yield client
    finally:
        await asyncio.to_thread(stop_server, process)


async def test_the_database_goes_while_it_waits(between: Line, far_client: httpx.AsyncClient, queue: str) -> None:
    api = Api(far_client, queue)
    held = await api.submit_held()
    waiting = asyncio.create_task(one(api, held, result=1, claim={"queue": queue, "wait": LONG}))
    await until(partial(is_completed, api, held))

    await between.cut()
    answer = done(await waiting)

    assert answer["task"]["phase"] == "completed"
    assert answer["claimed"]["error"]["code"] == "unavailable"
    # And when it is away before, nothing is done, and nothing is claimed.
    items = [{"id": str(UUID(int=number)), "delivery": 1} for number in range(3)]
    for query in ({}, {"atomic": "true"}):
        for path in ("/v1/tasks/complete", "/v1/tasks/fail"):
            refusal = await far_client.post(path, json={"tasks": items}, params=query)
            refused(refusal, 503, "unavailable")
            assert int(refusal.headers["retry-after"]) >= 1
    mixed = await far_client.post("/v1/tasks/complete", json={"tasks": [5, *items], "claim": {"queue": queue}})
    refused(mixed, 503, "unavailable")
    await between.open()


async def test_redis_goes_while_it_waits(database_url: str, queue: str) -> None:
    with running_redis() as redis, running_server(Settings(database_url=database_url, redis_url=redis.url)) as url:
        async with httpx.AsyncClient(base_url=url, timeout=LONG) as client:
            api = Api(client, queue)
            held = await api.submit_held(current_state="first")
            waiting = asyncio.create_task(one(api, held, claim={"queue": queue, "wait": LONG}))
            await until(partial(is_completed, api, held))
            redis.kill()

            task = await api.submit()

            assert [claimed["id"] for claimed in done(await waiting)["claimed"]["tasks"]] == [task["id"]]
