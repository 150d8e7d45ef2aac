"""Bodies, payloads, results and metadata at their limits and one byte beyond: trial S26."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from corndog.settings import Settings
from tests.api.calls import MSGPACK, Api, Fields, done, refused
from tests.servers import running_server

PAYLOAD = 1000
METADATA = 100
BODY = 4096
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server_url(database_url: str) -> Iterator[str]:
    settings = Settings(
        database_url=database_url, max_payload_bytes=PAYLOAD, max_metadata_bytes=METADATA, max_body_bytes=BODY
    )
    with running_server(settings) as url:
        yield url


@pytest.fixture
def small(client: httpx.AsyncClient, queue: str) -> Api:
    """Talk to a server with small limits."""
    return Api(client, queue)


def of_size(size: int) -> Fields:
    """Make a result, in JSON and in bytes, of so many bytes."""
    return {
        "result": "x" * (size - 2),
        "result_base64": base64.b64encode(b"x" * size).decode(),
    }


@pytest.mark.parametrize("field", ["result", "result_base64"])
async def test_a_result_one_byte_too_large_is_refused_and_the_holder_can_still_finish(small: Api, field: str) -> None:
    held = await small.submit_held()

    refusal = await small.try_complete(held["id"], delivery=1, **{field: of_size(PAYLOAD + 1)[field]})

    problem = await small.refuses_to_change(held, refusal, 413, "too_large", field)
    assert str(PAYLOAD) in problem["detail"]
    completed = await small.complete(held["id"], delivery=1, **{field: of_size(PAYLOAD)[field]})
    assert completed["task"]["phase"] == "completed"
    assert len((await small.client.get(f"/v1/tasks/{held['id']}/result")).content) == PAYLOAD


@pytest.mark.parametrize("field", ["payload", "payload_base64"])
async def test_payloads_at_and_over_the_limit(small: Api, field: str) -> None:
    terms = {size: of_size(size)[field.replace("payload", "result")] for size in (PAYLOAD, PAYLOAD + 1)}

    await small.refuses(await small.try_submit(**{field: terms[PAYLOAD + 1]}), 413, "too_large", field)
    held = await small.submit_held(**{field: terms[PAYLOAD]})
    update = await small.try_update(held["id"], delivery=1, **{field: terms[PAYLOAD + 1]})
    await small.refuses_to_change(held, update, 413, "too_large", field)
    for place in ("next_task", "next_tasks"):
        next_task = {field: terms[PAYLOAD + 1]}
        given = {place: next_task if place == "next_task" else [{}, next_task]}
        path = f"next_task.{field}" if place == "next_task" else f"next_tasks[1].{field}"
        await small.refuses_to_change(
            held, await small.try_complete(held["id"], delivery=1, **given), 413, "too_large", path
        )
    assert (await small.update(held["id"], delivery=1, **{field: terms[PAYLOAD]}))["task"]["phase"] == "held"


async def test_raw_payloads_at_and_over_the_limit(small: Api) -> None:
    url = f"/v1/tasks/raw?queue={small.queue}"

    await small.refuses(await small.client.post(url, content=b"x" * (PAYLOAD + 1)), 413, "too_large", "payload")
    done(await small.client.post(url, content=b"x" * PAYLOAD), 201)


async def test_messagepack_payloads_at_and_over_the_limit(small: Api) -> None:
    for field in ("payload", "payload_base64"):
        for size in (PAYLOAD + 1, PAYLOAD):
            content = b"x" * size if field == "payload_base64" else b'"%s"' % (b"x" * (size - 2))
            packed = msgspec.msgpack.encode({"queue": small.queue, field: content})
            response = await small.send("POST", "/v1/tasks", packed, MSGPACK)
            if size > PAYLOAD:
                refused(response, 413, "too_large", field)
            else:
                done(response, 201)
    assert len(await small.list()) == 2


async def test_size_is_counted_in_bytes(small: Api) -> None:
    text = json.dumps("é" * (PAYLOAD // 2), ensure_ascii=False)
    body = f'{{"queue":"{small.queue}","payload":{text}}}'

    await small.refuses(await small.send("POST", "/v1/tasks", body.encode()), 413, "too_large", "payload")


async def test_metadata_at_and_over_the_limit(small: Api) -> None:
    empty = len(json.dumps({"m": ""}, separators=(",", ":")))
    for extra, status in ((1, 413), (0, 201)):
        metadata = b'{"m":"%s"}' % (b"x" * (METADATA - empty + extra))
        response = await small.send(
            "POST", "/v1/tasks", b'{"queue":"%s","metadata":%s}' % (small.queue.encode(), metadata)
        )
        if status == 413:
            problem = await small.refuses(response, 413, "too_large", "metadata")
            assert str(METADATA) in problem["detail"]
        else:
            done(response, 201)


async def chunks(size: int) -> AsyncIterator[bytes]:
    """Give a body without saying how long it will be."""
    for start in range(0, size, 512):
        yield b"x" * min(512, size - start)


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_refused_by_every_call(small: Api, *, chunked: bool) -> None:
    held = await small.submit_held()
    path = f"/v1/tasks/{held['id']}"
    calls = ["/v1/tasks", "/v1/tasks/raw", "/v1/tasks/next", "/v1/cleanup-timed-out"]
    calls += [path, f"{path}/complete", f"{path}/release", f"{path}/cancel"]

    for target in calls:
        refusal = await small.client.request(
            "PATCH" if target == path else "POST",
            target,
            content=chunks(BODY + 1) if chunked else b"x" * (BODY + 1),
            headers={"Content-Type": "application/json"},
        )
        problem = await small.refuses_to_change(held, refusal, 413, "too_large", "body")
        assert str(BODY) in problem["detail"]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_at_the_limit_is_read(small: Api, *, chunked: bool) -> None:
    padding = b" " * (BODY - len(f'{{"queue":"{small.queue}"}}'))
    body = b'{"queue":"%s"%s}' % (small.queue.encode(), padding)
    assert len(body) == BODY

    async def parts() -> AsyncIterator[bytes]:
        yield body[:100]
        yield body[100:]

    response = await small.client.post(
        "/v1/tasks", content=parts() if chunked else body, headers={"Content-Type": "application/json"}
    )

    assert done(response, 201)["task"]["queue"] == small.queue


async def test_a_body_that_only_says_it_is_too_large_is_refused_at_once(small: Api) -> None:
    url = urlsplit(str(small.client.base_url))
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(
        b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n"
    )

    assert await asyncio.wait_for(reader.readline(), 30) == b"HTTP/1.1 413 Payload Too Large\r\n"

    writer.close()


# At the terms that a server has by default ------------------------------------


@pytest.mark.parametrize("encoding", ["base64", "json", "raw", "msgpack"])
async def test_a_payload_of_16_mib(api: Api, encoding: str) -> None:
    for size, status in ((16 * MIB + 1, 413), (16 * MIB, 201)):
        response = await _submit_large(api, encoding, size)
        assert response.status_code == status, response.text[:300]
        if status == 413:
            problem = refused(
                response, 413, "too_large", "payload_base64" if encoding in {"base64", "msgpack"} else "payload"
            )
            assert str(16 * MIB) in problem["detail"]
    [task] = await api.list()
    assert len((await api.client.get(f"/v1/tasks/{task['id']}/payload")).content) == 16 * MIB
    claimed = await api.client.post("/v1/tasks/next", json={"queue": api.queue}, headers={"Accept": MSGPACK})
    [held] = msgspec.msgpack.decode(claimed.content)["tasks"]
    assert len(held["payload" if encoding == "json" else "payload_base64"]) == 16 * MIB
    await api.cancel(task["id"])


async def _submit_large(api: Api, encoding: str, size: int) -> httpx.Response:
    data = bytes(size)
    if encoding == "raw":
        return await api.client.post("/v1/tasks/raw", params={"queue": api.queue}, content=data)
    if encoding == "msgpack":
        packed = msgspec.msgpack.encode({"queue": api.queue, "payload_base64": data})
        return await api.send("POST", "/v1/tasks", packed, MSGPACK)
    if encoding == "base64":
        return await api.try_submit(payload_base64=base64.b64encode(data).decode())
    return await api.send(
        "POST", "/v1/tasks", b'{"queue":"%s","payload":"%s"}' % (api.queue.encode(), b"x" * (size - 2))
    )


async def test_a_result_of_16_mib(api: Api) -> None:
    held = await api.submit_held()
    path = f"/v1/tasks/{held['id']}/complete"

    for size, status in ((16 * MIB + 1, 413), (16 * MIB, 200)):
        response = await api.send("POST", path, b'{"delivery":1,"result":"%s"}' % (b"x" * (size - 2)))
        assert response.status_code == status, response.text[:300]
        if status == 413:
            await api.refuses_to_change(held, response, 413, "too_large", "result")
    assert len((await api.client.get(f"/v1/tasks/{held['id']}/result")).content) == 16 * MIB
