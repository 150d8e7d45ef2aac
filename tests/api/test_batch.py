"""Submitting many at once: design section 9 (batch answers), and section 5 for batches under a key."""

import asyncio
import base64
import json
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import msgspec
import pytest

from corndog.settings import Settings
from tests.api.calls import JSON, MSGPACK, PROBLEM, Api, Fields, done, refused
from tests.faults import plain_url
from tests.servers import running_server

BATCH = "/v1/tasks/batch"
HEADER = "Idempotency-Key"
WRONG: list[tuple[Any, int, str, str | None]] = [
    ({"priority": 2**31}, 400, "invalid", "priority"),
    ({"queue": ""}, 400, "invalid", "queue"),
    ({"queue": "a\n"}, 400, "invalid", "queue"),
    ({"timeout": 5}, 400, "invalid", "timeout"),
    ({"delay": 1, "run_at": "2030-01-01T00:00:00Z"}, 400, "invalid", "run_at"),
    ({"metadata": [1]}, 400, "invalid", "metadata"),
    ({"no_such_field": 1}, 400, "unknown_field", "no_such_field"),
    ({"idempotency_key": "k"}, 400, "unknown_field", "idempotency_key"),
    ({"metadata": {"a": "x" * 20_000}}, 413, "too_large", "metadata"),
    (5, 400, "invalid", None),
    (None, 400, "invalid", None),
    ([{}], 400, "invalid", None),
]
"""Items that are refused, and how."""


async def submit(api: Api, *items: object, key: str | None = None, **query: str) -> httpx.Response:
    """Submit a batch; items that are objects get the test's queue."""
    tasks = [{"queue": api.queue} | item if isinstance(item, dict) else item for item in items]
    headers = {} if key is None else {HEADER: key}
    return await api.client.post(BATCH, json={"tasks": tasks}, params=query, headers=headers)


async def in_queue(api: Api) -> list[str]:
    """Name the tasks of the queue in claim order."""
    return [task["id"] for task in await api.list(limit=1000)]


def problem_of(result: Fields, status: int, code: str, field: str | None) -> Fields:
    """See that an item was refused as a call would be."""
    assert result.keys() == {"status", "problem"}
    problem: Fields = result["problem"]
    request = httpx.Request("POST", "http://server/v1/tasks")
    as_call = httpx.Response(result["status"], json=problem, headers={"content-type": PROBLEM}, request=request)
    assert refused(as_call, status, code, field) == problem
    return problem


@pytest.fixture
def key() -> str:
    return f"key-{uuid4().hex}"


async def test_each_item_becomes_a_task_in_order(api: Api) -> None:
    items: list[Fields] = [{"kind": str(number), "payload": {"n": number}} for number in range(20)]

    answer = done(await submit(api, *items, {"delay": 60}))

    assert (answer["failed"], answer["replayed"]) == (0, False)
    assert answer.keys() == {"results", "failed", "replayed"}
    assert {result["status"] for result in answer["results"]} == {201}
    assert all(result.keys() == {"status", "id", "task"} for result in answer["results"])
    assert [result["task"]["id"] for result in answer["results"]] == [result["id"] for result in answer["results"]]
    assert [await api.get(result["id"]) for result in answer["results"]] == [
        result["task"] for result in answer["results"]
    ]
    assert answer["results"][-1]["task"]["phase"] == "parked"
    claimed = await api.claim(count=100)
    assert [(task["kind"], task["payload"]) for task in claimed] == [(item["kind"], item["payload"]) for item in items]


@pytest.mark.parametrize(("item", "status", "code", "field"), WRONG, ids=lambda value: str(value)[:20])
async def test_a_wrong_item_is_refused_by_itself(
    api: Api, item: object, status: int, code: str, field: str | None
) -> None:
    if isinstance(item, dict):
        item = {"queue": api.queue} | item

    answer = done(await api.post(BATCH, tasks=[{"queue": api.queue}, item, {"queue": api.queue}]))

    first, second, third = answer["results"]
    problem_of(second, status, code, field)
    assert answer["failed"] == 1
    assert await in_queue(api) == [first["id"], third["id"]]


async def test_a_batch_of_wrong_items_makes_nothing(api: Api) -> None:
    answer = done(await submit(api, {"priority": "1"}, 7))

    assert [result["status"] for result in answer["results"]] == [400, 400]
    assert (answer["failed"], await in_queue(api)) == (2, [])


@pytest.mark.parametrize(("item", "status", "code", "field"), WRONG, ids=lambda value: str(value)[:20])
async def test_an_atomic_batch_is_refused_for_its_first_wrong_item(
    api: Api, item: object, status: int, code: str, field: str | None
) -> None:
    refusal = await submit(api, {}, item, {}, atomic="true")

    await api.refuses(refusal, status, code, f"tasks[1].{field}" if field else "tasks[1]")


async def test_an_atomic_batch_tells_of_all_that_is_wrong(api: Api) -> None:
    refusal = await submit(api, {}, {"priority": 1.5}, {}, {"kind": ""}, 1, atomic="true")

    assert (refusal.status_code, refusal.headers["content-type"]) == (400, PROBLEM)
    problem = refusal.json()
    assert (problem["code"], problem["field"]) == ("invalid", "tasks[1].priority")
    assert [error["field"] for error in problem["errors"]] == ["tasks[1].priority", "tasks[3].kind", "tasks[4]"]
    assert problem["detail"] == problem["errors"][0]["detail"]
    assert await in_queue(api) == []


async def test_an_atomic_batch_that_is_right_is_submitted(api: Api) -> None:
    answer = done(await submit(api, {}, {}, atomic="true"))

    assert await in_queue(api) == [result["id"] for result in answer["results"]]
    assert len(done(await submit(api, {}, 5, atomic="false"))["results"]) == 2


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ("", "malformed_body", None),
        ("{", "malformed_body", None),
        ('{"tasks": [{}', "malformed_body", None),
        ('{"tasks": [{} {}]}', "malformed_body", None),
        ('{"tasks": [{}], "x": 1}', "unknown_field", "x"),
        ("[]", "invalid", None),
        ("{}", "invalid", "tasks"),
        ('{"tasks": {}}', "invalid", "tasks"),
        ('{"tasks": null}', "invalid", "tasks"),
        ('{"tasks": []}', "invalid", "tasks"),
        ('{"tasks": [{}], "idempotency_key": ""}', "invalid", "idempotency_key"),
        ('{"tasks": [' + "[" * 100_000 + "]" * 100_000 + "]}", "malformed_body", None),
    ],
    ids=lambda value: str(value)[:24],
)
async def test_a_malformed_batch_is_refused_as_a_whole(api: Api, body: str, code: str, field: str | None) -> None:
    refused(await api.send("POST", BATCH, body), 400, code, field)


@pytest.mark.parametrize("query", ["atomic=maybe", "atomic=", "atomic=null", "atomic=true&atomic=true"])
async def test_a_wrong_parameter_is_refused(api: Api, query: str) -> None:
    response = await api.client.post(f"{BATCH}?{query}", json={"tasks": [{"queue": api.queue}]})

    await api.refuses(response, 400, "invalid", "atomic")


async def test_an_unknown_parameter_is_refused(api: Api) -> None:
    await api.refuses(await submit(api, {}, other="1"), 400, "unknown_field", "other")


async def test_a_thousand_items_are_allowed_and_no_more(api: Api) -> None:
    answer = done(await submit(api, *[{}] * 1000))
    assert await in_queue(api) == [result["id"] for result in answer["results"]]

    problem = refused(await submit(api, *[{}] * 1001), 400, "invalid", "tasks")
    assert "1000" in problem["detail"]
    assert len(await in_queue(api)) == 1000


async def test_the_limits_are_those_of_the_server(api_database_url: str, redis_url: str, queue: str) -> None:
    settings = Settings(
        database_url=api_database_url,
        redis_url=redis_url,
        max_batch_items=2,
        max_payload_bytes=10,
        max_body_bytes=2000,
        scheduler=False,
    )
    with running_server(settings) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            api = Api(client, queue)
            answer = done(await submit(api, {"payload": "x" * 8}, {"payload": "x" * 9}))
            assert [result["status"] for result in answer["results"]] == [201, 413]
            problem_of(answer["results"][1], 413, "too_large", "payload")
            refused(await submit(api, {}, {}, {}), 400, "invalid", "tasks")
            refused(await submit(api, {"kind": "k" * 2000}), 413, "too_large", "body")
            assert len(await in_queue(api)) == 1


async def test_payloads_stay_as_they_are(api: Api) -> None:
    texts = ['{"b":1, "a": 12345678901234567890123, "a":2}', '"\\u0000"', "null", "1e400"]
    data = bytes(range(256))
    items = [f'{{"queue": "{api.queue}", "payload": {text}}}' for text in texts]
    encoded = base64.b64encode(data).decode()
    items.append(f'{{"queue": "{api.queue}", "payload_base64": "{encoded}", "content_type": "image/png"}}')

    results = done(await api.send("POST", BATCH, f'{{"tasks": [{", ".join(items)}]}}'))["results"]

    for text, result in zip([*map(str.encode, texts), data], results, strict=True):
        assert (await api.client.get(f"/v1/tasks/{result['id']}/payload")).content == text


async def test_messagepack_both_ways(api: Api) -> None:
    items = [
        {"queue": api.queue, "payload": b'{"a": 1}', "metadata": {"x": 1}},
        {"queue": api.queue, "priority": "1"},
        {"queue": api.queue, "kind": "\udcff".encode(errors="surrogatepass")},
        {"queue": api.queue, "payload_base64": b"\x00"},
    ]
    headers = {"Content-Type": MSGPACK, "Accept": MSGPACK}

    response = await api.client.post(BATCH, content=msgspec.msgpack.encode({"tasks": items}), headers=headers)

    assert (response.status_code, response.headers["content-type"]) == (200, MSGPACK)
    answer = msgspec.msgpack.decode(response.content)
    assert [result["status"] for result in answer["results"]] == [201, 400, 400, 201]
    assert answer["results"][0]["task"]["metadata"] == {"x": 1}
    assert answer["results"][1]["problem"]["field"] == "priority"
    assert await in_queue(api) == [answer["results"][place]["id"] for place in (0, 3)]
    payload = await api.client.get(f"/v1/tasks/{answer['results'][0]['id']}/payload")
    assert (payload.content, payload.headers["content-type"]) == (b'{"a": 1}', JSON)


@pytest.mark.parametrize("kind", [b"\xff", b"\\ud800"])
async def test_text_that_is_no_text_refuses_the_batch(api: Api, kind: bytes) -> None:
    body = b'{"tasks": [{"queue": "%s"}, {"kind": "%s"}]}' % (api.queue.encode(), kind)

    await api.refuses(await api.send("POST", BATCH, body), 400, "malformed_body")


# Under a key ------------------------------------------------------------------


async def test_a_repeat_gives_each_items_original_result(api: Api, key: str) -> None:
    items: list[object] = [{}, {"priority": "1"}, {"payload": 1}, 5, {"delay": 60}]
    first = done(await submit(api, *items, key=key))
    assert (first["failed"], first["replayed"]) == (2, False)

    again = done(await submit(api, *items, key=key))

    assert again == first | {"replayed": True}
    assert len(await in_queue(api)) == 3


async def test_a_repeat_tells_of_the_tasks_as_they_are(api: Api, api_database_url: str, key: str) -> None:
    items: list[object] = [{}, 5, {}, {}]
    first = done(await submit(api, *items, key=key))
    held, ended = await api.claim(count=2)
    await api.complete(ended["id"], delivery=1)
    connection = await asyncpg.connect(plain_url(api_database_url))
    await connection.execute("DELETE FROM tasks WHERE queue = $1 AND phase = 'ready'", api.queue)
    await connection.close()

    again = done(await submit(api, *items, key=key))

    assert [result.get("id") for result in again["results"]] == [result.get("id") for result in first["results"]]
    assert [result["status"] for result in again["results"]] == [201, 400, 201, 201]
    phases = [result["task"] and result["task"]["phase"] for result in again["results"] if "task" in result]
    assert phases == ["held", "completed", None]
    assert again["results"][0]["id"] == held["id"]
    assert await api.list(phase="ready") == []


async def test_refusals_are_answered_as_they_were_kept(api: Api, api_database_url: str, key: str) -> None:
    first = done(await submit(api, {}, 5, key=key))
    connection = await asyncpg.connect(plain_url(api_database_url))
    kept = await connection.fetchval("SELECT answer FROM idempotency_keys WHERE key = $1", key)
    problems = msgspec.msgpack.decode(kept, strict=False)
    assert problems == {1: first["results"][1]["problem"]}
    problems[1]["detail"] = "as an older server put it"
    await connection.execute(
        "UPDATE idempotency_keys SET answer = $2 WHERE key = $1", key, msgspec.msgpack.encode(problems)
    )
    await connection.close()

    again = done(await submit(api, {}, 5, key=key))

    assert again["results"][1] == {"status": 400, "problem": problems[1]}


async def test_the_field_names_the_same_key(api: Api, key: str) -> None:
    first = done(await submit(api, {}, key=key))
    tasks = [{"queue": api.queue}]

    assert done(await api.post(BATCH, tasks=tasks, idempotency_key=key)) == first | {"replayed": True}
    both = await api.client.post(BATCH, json={"tasks": tasks, "idempotency_key": key}, headers={HEADER: key})
    refused(both, 400, "invalid", "idempotency_key")


@pytest.mark.parametrize(
    "items",
    [[{}, 6], [5, {}], [{}, 5, {}], [{}], [{"priority": 1}, 5], [6, 6], [{"payload": None}, 5]],
    ids=str,
)
async def test_another_batch_under_the_key_is_refused(api: Api, key: str, items: list[object]) -> None:
    first = done(await submit(api, {}, 5, key=key))

    refused(await submit(api, *items, key=key), 409, "key_in_use")
    assert await in_queue(api) == [first["results"][0]["id"]]
    assert done(await submit(api, {}, 5, key=key))["replayed"] is True


async def test_submits_and_batches_share_one_namespace(api: Api, key: str) -> None:
    done(await submit(api, {}, key=key))

    refused(await api.try_submit(idempotency_key=key), 409, "key_in_use")
    other = f"{key}-other"
    done(await api.try_submit(idempotency_key=other), 201)
    refused(await submit(api, {}, key=other), 409, "key_in_use")
    refused(await submit(api, {}, key=key, atomic="true"), 409, "key_in_use")
    assert len(await in_queue(api)) == 2


async def test_where_nothing_is_made_no_key_is_kept(api: Api, key: str) -> None:
    first = done(await submit(api, 5, {"priority": ""}, key=key))
    assert (first["failed"], first["replayed"]) == (2, False)
    assert done(await submit(api, 5, {"priority": ""}, key=key)) == first

    refused(await submit(api, 5, key=key, atomic="true"), 400, "invalid", "tasks[0]")
    assert done(await submit(api, {}, key=key))["replayed"] is False


async def test_the_encoding_does_not_matter(api: Api, key: str) -> None:
    item = {"queue": api.queue, "delay": 60, "metadata": {"b": 1, "a": 2}}
    text = json.dumps({"tasks": [item | {"payload": 7}], "idempotency_key": key})
    first = done(await api.send("POST", BATCH, text))

    turned = {"metadata": {"a": 2, "b": 1}, "payload": b"7", "delay": 60.0, "queue": api.queue}
    packed = msgspec.msgpack.encode({"idempotency_key": key, "tasks": [turned]})
    assert done(await api.send("POST", BATCH, packed, MSGPACK)) == first | {"replayed": True}


async def test_many_at_once_make_one_batch(api: Api, key: str) -> None:
    items: list[object] = [{}, 5, {}, {}]
    answers = [done(answer) for answer in await asyncio.gather(*(submit(api, *items, key=key) for _ in range(30)))]

    assert sum(not answer["replayed"] for answer in answers) == 1
    ids = await in_queue(api)
    assert len(ids) == 3
    assert all([result["id"] for result in answer["results"] if "id" in result] == ids for answer in answers)


async def test_batches_under_many_keys_do_not_block_one_another(api: Api, key: str) -> None:
    keys = [f"{key}-{number % 5}" for number in range(40)]

    answers = await asyncio.gather(*(submit(api, *[{}] * 20, key=each) for each in keys))

    assert sum(not done(answer)["replayed"] for answer in answers) == 5
    assert len(await in_queue(api)) == 100
