"""Idempotency keys of submits: design section 5, and scenarios S10 (the calls' part) and S11."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import msgspec
import pytest

from corndog.settings import Settings
from tests.api.calls import JSON, MSGPACK, Api, Fields, done, refused
from tests.faults import plain_url
from tests.servers import running_server

HEADER = "Idempotency-Key"
RAW = "/v1/tasks/raw"


@pytest.fixture
def key() -> str:
    return f"key-{uuid4().hex}"


async def under(api: Api, key: str, **fields: Any) -> httpx.Response:  # noqa: ANN401
    """Submit with a key in the header."""
    return await api.client.post("/v1/tasks", json={"queue": api.queue} | fields, headers={HEADER: key})


async def replayed(api: Api, first: Fields, response: httpx.Response) -> Fields:
    """See that a submit was answered by the id of an earlier one, and give the task as it is now."""
    answer = done(response, 201)
    assert answer.keys() == {"id", "task", "replayed"}
    assert (answer["id"], answer["replayed"]) == (first["id"], True)
    task: Fields = answer["task"]
    assert await api.get(first["id"]) == task
    return task


async def test_a_repeat_is_answered_with_the_same_task(api: Api, key: str) -> None:
    first = done(await under(api, key, payload={"a": 1}), 201)

    assert (first["id"], first["replayed"]) == (first["task"]["id"], False)
    assert await replayed(api, first, await under(api, key, payload={"a": 1})) == first["task"]
    assert len(await api.list()) == 1


async def test_without_a_key_each_submit_makes_a_task(api: Api) -> None:
    answers = [done(await api.try_submit(), 201) for _ in range(2)]

    assert [answer["replayed"] for answer in answers] == [False, False]
    assert {answer["id"] for answer in answers} == {task["id"] for task in await api.list()}
    assert len(await api.list()) == 2


async def test_the_field_and_the_header_name_the_same_key(api: Api, key: str) -> None:
    first = done(await under(api, key), 201)

    await replayed(api, first, await api.try_submit(idempotency_key=key))


async def test_a_key_of_null_is_none(api: Api) -> None:
    answers = [done(await api.try_submit(idempotency_key=None), 201) for _ in range(2)]

    assert answers[0]["id"] != answers[1]["id"]


async def test_header_and_field_together_are_refused(api: Api, key: str) -> None:
    await api.refuses(await under(api, key, idempotency_key=key), 400, "invalid", "idempotency_key")
    query = {"queue": api.queue, "idempotency_key": key}
    raw = await api.client.post(RAW, params=query, headers={HEADER: key})
    await api.refuses(raw, 400, "invalid", "idempotency_key")


async def test_a_key_may_have_any_characters_but_controls(api: Api) -> None:
    text = f'Ü/ %2F?#é😀 \u2028"\\ {uuid4()}'
    key = text + "k" * (255 - len(text))
    first = done(await api.try_submit(idempotency_key=key), 201)

    header = {HEADER.encode(): key.encode()}  # as UTF-8
    again = await api.client.post("/v1/tasks", json={"queue": api.queue}, headers=header)
    await replayed(api, first, again)


@pytest.mark.parametrize("key", ["", "k" * 256, "a\n", "\x00", "\x7f", "\x85", 5, ["k"], {}])
async def test_a_wrong_field_is_refused(api: Api, key: object) -> None:
    await api.refuses(await api.try_submit(idempotency_key=key), 400, "invalid", "idempotency_key")


@pytest.mark.parametrize("key", [b"", b"k" * 256, b"a\tb", "\x85".encode(), b"\xff", b"\xc3"])
async def test_a_wrong_header_is_refused(api: Api, key: bytes) -> None:
    response = await api.client.post("/v1/tasks", json={"queue": api.queue}, headers={HEADER.encode(): key})

    await api.refuses(response, 400, "invalid", HEADER)


async def test_two_headers_are_refused(api: Api, key: str) -> None:
    headers = [(HEADER, key), (HEADER, key)]

    await api.refuses(
        await api.client.post("/v1/tasks", json={"queue": api.queue}, headers=headers), 400, "invalid", HEADER
    )


@pytest.mark.parametrize("query", ["idempotency_key=", "idempotency_key=a%0A", "idempotency_key=" + "k" * 256])
async def test_a_wrong_parameter_is_refused(api: Api, query: str) -> None:
    response = await api.client.post(f"{RAW}?queue={api.queue}&{query}")

    await api.refuses(response, 400, "invalid", "idempotency_key")


async def test_a_next_task_takes_no_key(api: Api, key: str) -> None:
    held = await api.submit_held()

    for fields, where in (
        ({"next_task": {"idempotency_key": key}}, "next_task.idempotency_key"),
        ({"next_tasks": [{"idempotency_key": key}]}, "next_tasks[0].idempotency_key"),
    ):
        refusal = await api.try_complete(held["id"], delivery=1, **fields)
        await api.refuses_to_change(held, refusal, 400, "unknown_field", where)


@pytest.mark.parametrize(
    "other",
    [
        {"payload": {"a": 2}},
        {"payload": None},
        {"payload_base64": "eyJhIjogMX0="},
        {"queue": "another"},
        {"current_state": "another"},
        {"priority": 1},
        {"delay": 0},
        {"run_at": "2020-01-01T00:00:00Z"},
        {"max_attempts": 3},
        {"metadata": {}},
        {"content_type": "text/json"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_another_request_under_the_key_is_refused(api: Api, key: str, other: Fields) -> None:
    """Scenario S11."""
    given: Fields = {"payload": {"a": 1}}
    task = done(await under(api, key, **given), 201)["task"]
    before = await api.get(task["id"], include="payload")

    if "payload_base64" in other:
        given = {}
    refused(await under(api, key, **given | other), 409, "key_in_use")
    assert await api.get(task["id"], include="payload") == before
    assert len(await api.list()) == 1
    await replayed(api, task, await under(api, key, payload={"a": 1}))


async def test_payloads_are_compared_byte_for_byte(api: Api, key: str) -> None:
    async def submit(payload: str) -> httpx.Response:
        body = f'{{"queue": "{api.queue}", "payload": {payload}, "idempotency_key": "{key}"}}'
        return await api.send("POST", "/v1/tasks", body)

    first = done(await submit('{"a": 1}'), 201)
    await replayed(api, first, await submit('{"a": 1}'))
    refused(await submit('{"a":1}'), 409, "key_in_use")


async def test_the_encoding_and_the_order_of_fields_do_not_matter(api: Api, key: str) -> None:
    fields = {
        "queue": api.queue,
        "delay": 60,
        "backoff": 1.5,
        "metadata": {"b": [1, None, 2.5], "a": {"y": 1, "x": "é"}},
        "idempotency_key": key,
    }
    first = done(await api.send("POST", "/v1/tasks", json.dumps(fields | {"payload": 7})), 201)

    turned = dict(reversed(fields.items())) | {"metadata": {"a": {"x": "é", "y": 1}, "b": [1, None, 2.5]}}
    await replayed(api, first, await api.send("POST", "/v1/tasks", json.dumps({"payload": 7} | turned, indent=2)))
    packed = msgspec.msgpack.encode(turned | {"payload": b"7", "delay": 60.0})
    await replayed(api, first, await api.send("POST", "/v1/tasks", packed, MSGPACK))


async def test_a_raw_submit_is_the_submit_of_its_bytes(api: Api, key: str) -> None:
    query = {"queue": api.queue, "priority": "3"}
    headers = {"Content-Type": "image/png"}

    async def submit(body: bytes, **more: str) -> httpx.Response:
        return await api.client.post(RAW, params=query | more, content=body, headers=headers)

    first = done(await submit(b"\x89PNG", idempotency_key=key), 201)
    await replayed(api, first, await submit(b"\x89PNG", idempotency_key=key))
    headers[HEADER] = key
    await replayed(api, first, await submit(b"\x89PNG"))
    refused(await submit(b"\x89PNg"), 409, "key_in_use")
    await replayed(api, first, await under(api, key, priority=3, payload_base64="iVBORw==", content_type="image/png"))


async def test_a_refused_submit_leaves_its_key_free(api: Api, key: str) -> None:
    await api.refuses(await under(api, key, timeout=5), 400, "invalid", "timeout")

    assert done(await under(api, key), 201)["replayed"] is False


async def test_replays_tell_of_the_task_as_it_is(api: Api, key: str) -> None:
    first = done(await under(api, key), 201)
    [held] = await api.claim()
    assert (await replayed(api, first, await under(api, key)))["phase"] == "held"

    await api.complete(held["id"], delivery=1)
    assert (await replayed(api, first, await under(api, key)))["phase"] == "completed"
    assert await api.list() == []


async def test_a_revived_task_is_replayed_as_it_is(api: Api, key: str) -> None:
    first = done(await under(api, key), 201)
    await api.cancel(first["id"])
    done(await api.post(f"/v1/tasks/{first['id']}/revive"))

    assert (await replayed(api, first, await under(api, key)))["phase"] == "ready"


@pytest.mark.parametrize("accept", [JSON, MSGPACK])
async def test_a_purged_task_is_replayed_by_its_id(api: Api, api_database_url: str, key: str, accept: str) -> None:
    first = done(await under(api, key), 201)
    connection = await asyncpg.connect(plain_url(api_database_url))
    await connection.execute("DELETE FROM tasks WHERE queue = $1", api.queue)
    await connection.close()

    body = {"queue": api.queue}
    again = await api.client.post("/v1/tasks", json=body, headers={HEADER: key, "Accept": accept})

    assert again.status_code == 201
    decode = msgspec.msgpack.decode if accept == MSGPACK else msgspec.json.decode
    assert decode(again.content) == {"id": first["id"], "task": None, "replayed": True}
    assert await api.list() == []


async def test_many_at_once_make_one_task(api: Api, key: str) -> None:
    answers = [done(answer, 201) for answer in await asyncio.gather(*(under(api, key) for _ in range(50)))]

    [task] = await api.list()
    assert {answer["id"] for answer in answers} == {task["id"]}
    assert sum(not answer["replayed"] for answer in answers) == 1


async def test_a_task_that_a_repeat_tells_of_is_claimable(api: Api, key: str) -> None:
    first = done(await under(api, key), 201)
    done(await under(api, key), 201)

    [task] = await api.claim(count=5)
    assert task["id"] == first["id"]
    assert await api.claim(count=5) == []


async def test_defaults_that_change_do_not_make_it_another_request(
    api: Api, api_database_url: str, redis_url: str, key: str
) -> None:
    first = done(await under(api, key), 201)
    settings = Settings(
        database_url=api_database_url, redis_url=redis_url, default_max_attempts=9, default_backoff=1, scheduler=False
    )
    with running_server(settings) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            await replayed(api, first, await under(Api(client, api.queue), key))
