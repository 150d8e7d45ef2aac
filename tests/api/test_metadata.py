"""Metadata: an object of the submitter's own, readable in both encodings, whichever it was written in."""

import json

import msgspec
import pytest

from tests.api.calls import JSON, MSGPACK, Api, done


async def test_metadata_keeps_its_text_in_json_and_its_meaning_in_messagepack(api: Api) -> None:
    text = b'{ "b":1.0, "a":"\\u0000\\u00e9",  "n":18446744073709551615, "a":[{}] }'
    body = b'{"queue":"%s","metadata":%s}' % (api.queue.encode(), text)

    response = await api.send("POST", "/v1/tasks", body)
    packed = await api.client.get(f"/v1/tasks/{response.json()['task']['id']}", headers={"Accept": MSGPACK})

    assert b'"metadata":' + text in response.content
    assert msgspec.msgpack.decode(packed.content)["task"]["metadata"] == json.loads(text)


async def test_metadata_in_messagepack_comes_back_in_both(api: Api) -> None:
    metadata = {"a": [1, 2.5, None, True, "é\u0000"], "n": 2**64 - 1, "m": -(2**63), "o": {"": {}}}
    body = msgspec.msgpack.encode({"queue": api.queue, "metadata": metadata})

    task = done(await api.send("POST", "/v1/tasks", body, MSGPACK), 201)["task"]

    assert task["metadata"] == metadata
    packed = await api.client.get(f"/v1/tasks/{task['id']}", headers={"Accept": MSGPACK})
    assert msgspec.msgpack.decode(packed.content)["task"]["metadata"] == metadata


@pytest.mark.parametrize(
    "metadata",
    [
        b"[]",
        b'"text"',
        b"1",
        b"true",
        b'{"n":18446744073709551616}',
        b'{"n":-9223372036854775809}',
        b'{"n":1e999}',
        b'{"a":' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"a":' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}",
    ],
)
async def test_metadata_that_one_encoding_cant_carry_is_refused(api: Api, metadata: bytes) -> None:
    body = b'{"queue":"%s","metadata":%s}' % (api.queue.encode(), metadata)

    await api.refuses(await api.send("POST", "/v1/tasks", body), 400, "invalid", "metadata")


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": float("nan")},
        {"a": [float("-inf")]},
        {"a": b"bytes"},
        {1: 2},
        {"a": {1: 2}},
        [],
        {"a": msgspec.msgpack.Ext(5, b"x")},
        {"a": msgspec.Raw(b"\xd6\xff\x00\x00\x00\x01")},
    ],
)
async def test_metadata_that_json_cant_express_is_refused(api: Api, metadata: object) -> None:
    body = msgspec.msgpack.encode({"queue": api.queue, "metadata": metadata})

    await api.refuses(await api.send("POST", "/v1/tasks", body, MSGPACK), 400, "invalid", "metadata")


async def test_metadata_as_deep_as_allowed_can_be_read_and_claimed_in_both_encodings(api: Api) -> None:
    body = b'{"queue":"%s","metadata":{"a":%s}}' % (api.queue.encode(), b"[" * 99 + b"]" * 99)
    task = done(await api.send("POST", "/v1/tasks", body), 201)["task"]

    for accept in (JSON, MSGPACK):
        for path in (f"/v1/tasks/{task['id']}", f"/v1/tasks?queue={api.queue}"):
            assert (await api.client.get(path, headers={"Accept": accept})).status_code == 200
    claimed = await api.client.post("/v1/tasks/next", json={"queue": api.queue}, headers={"Accept": MSGPACK})
    assert len(msgspec.msgpack.decode(claimed.content)["tasks"]) == 1
