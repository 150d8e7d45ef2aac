"""Payloads and results: opaque bytes, returned byte for byte."""

import base64

import msgspec
import pytest

from tests.api.calls import JSON, MSGPACK, Api, Fields, done, refused

TEXTS = {
    "null": b"null",
    "empty string": b'""',
    "empty object": b"{}",
    "false": b"false",
    "2^53+1": b"9007199254740993",
    "2^64": b"18446744073709551616",
    "a hundred digits": b"1" * 100,
    "a small fraction": b"0.10000000000000000000000000000000000000001",
    "an overflowing number": b"1e999",
    "minus zero": b"[-0, -0.0, 0.0, 1E+5, 1e-5]",
    "key order": b'{"z":1,"a":2,"m":3}',
    "duplicate keys": b'{"a":1,"a":{"a":2},"a":[3]}',
    "whitespace": b'{ "a" :\t[ 1 ,\r\n 2 ] ,"b":  { } }',
    "escaped controls": rb'"\u0000\u0001\b\f\n\r\t\/\\\"\u007f"',
    "escapes as they are": b'"\\u00e9\\ud83d\\ude00\xc3\xa9\xf0\x9f\x98\x80"',
    "raw controls beyond ASCII": "\u0085\u009f\u2028\ufeff\uffff".join('""').encode(),
    "what looks like markup": b'"</script><!--"',
    "deep nesting": b"[" * 500 + b"]" * 500,
    "a key that is a field": b'{"payload":{"result":null},"queue":1}',
}
CASES = pytest.mark.parametrize("text", list(TEXTS.values()), ids=list(TEXTS))
EVERY_BYTE = bytes(range(256))


@CASES
async def test_a_json_payload_survives_every_way_out(api: Api, text: bytes) -> None:
    body = b'{"queue":"%s","payload":%s}' % (api.queue.encode(), text)

    task = done(await api.send("POST", "/v1/tasks", body), 201)["task"]

    await _comes_back(api, task["id"], "payload", text)
    claimed = await api.client.post("/v1/tasks/next", json={"queue": api.queue})
    assert b'"payload":' + text in claimed.content


@CASES
async def test_a_json_result_survives_every_way_out(api: Api, text: bytes) -> None:
    held = await api.submit_held()

    done(await api.send("POST", f"/v1/tasks/{held['id']}/complete", b'{"delivery":1,"result":%s}' % text))

    await _comes_back(api, held["id"], "result", text)


@CASES
async def test_json_in_messagepack_is_a_byte_string(api: Api, text: bytes) -> None:
    body = msgspec.msgpack.encode({"queue": api.queue, "payload": text})

    task = done(await api.send("POST", "/v1/tasks", body, MSGPACK), 201)["task"]

    await _comes_back(api, task["id"], "payload", text)


@CASES
async def test_a_payload_of_a_next_task_survives(api: Api, text: bytes) -> None:
    held = await api.submit_held()
    body = b'{"delivery":1,"next_task":{"queue":"%s","payload":%s}}' % (api.queue.encode(), text)

    [next_id] = done(await api.send("POST", f"/v1/tasks/{held['id']}/complete", body))["next_tasks"]

    await _comes_back(api, next_id, "payload", text)


async def _comes_back(api: Api, task_id: str, field: str, text: bytes) -> None:
    """See that JSON comes back as the very bytes that were sent: alone, in a read and in a list, in both encodings."""
    alone = await api.client.get(f"/v1/tasks/{task_id}/{field}")
    assert (alone.status_code, alone.content, alone.headers["content-type"]) == (200, text, JSON)
    get = f"/v1/tasks/{task_id}?include={field}"
    listing = f"/v1/tasks?queue={api.queue}&include={field}&archived={'true' if field == 'result' else 'false'}"
    for path in (get, listing):
        as_json = await api.client.get(path)
        assert b'"%s":%s,' % (field.encode(), text) in as_json.content
        as_msgpack = await api.client.get(path, headers={"Accept": MSGPACK})
        answer = msgspec.msgpack.decode(as_msgpack.content)
        [task] = [answer["task"]] if "task" in answer else answer["tasks"]
        prefix = "result_" if field == "result" else ""
        assert (task[field], task[f"{prefix}content_type"]) == (text, JSON)
        assert f"{field}_base64" not in task


async def test_whitespace_around_a_json_payload_is_not_part_of_it(api: Api) -> None:
    body = b'{"queue": "%s", "payload" : \n {"a": 1} \t }' % api.queue.encode()

    task = done(await api.send("POST", "/v1/tasks", body), 201)["task"]

    assert (await api.client.get(f"/v1/tasks/{task['id']}/payload")).content == b'{"a": 1}'


@pytest.mark.parametrize("data", [b"", EVERY_BYTE, b"\xff\xfe", b"null", b'{"a":1}'])
@pytest.mark.parametrize("media_type", [None, "image/png", "application/json", "text/plain; charset=latin-1"])
async def test_bytes_survive_in_every_encoding(api: Api, data: bytes, media_type: str | None) -> None:
    given = {"payload_base64": base64.b64encode(data).decode()} | ({"content_type": media_type} if media_type else {})
    packed = msgspec.msgpack.encode({"queue": api.queue} | given | {"payload_base64": data})

    tasks = [
        await api.submit(**given),
        done(await api.send("POST", "/v1/tasks", packed, MSGPACK), 201)["task"],
        done(
            await api.client.post(
                "/v1/tasks/raw",
                params={"queue": api.queue},
                content=data,
                headers={"Content-Type": media_type} if media_type else {},
            ),
            201,
        )["task"],
    ]

    for task in tasks:
        alone = await api.client.get(f"/v1/tasks/{task['id']}/payload")
        assert alone.content == data
        assert alone.headers["content-type"] == (media_type or "application/octet-stream")
        read = await api.get(task["id"], include="payload")
        assert base64.b64decode(read["payload_base64"], validate=True) == data
        assert "payload" not in read
        packed_read = await api.client.get(f"/v1/tasks/{task['id']}?include=payload", headers={"Accept": MSGPACK})
        assert msgspec.msgpack.decode(packed_read.content)["task"]["payload_base64"] == data


@pytest.mark.parametrize("data", [b"", EVERY_BYTE])
async def test_bytes_of_a_result_survive(api: Api, data: bytes) -> None:
    held, packed_held = await api.submit_held(), await api.submit_held()
    given = {"result_base64": base64.b64encode(data).decode(), "result_content_type": "image/png"}
    packed = msgspec.msgpack.encode({"delivery": 1, "result_base64": data, "result_content_type": "image/png"})

    await api.complete(held["id"], delivery=1, **given)
    done(await api.send("POST", f"/v1/tasks/{packed_held['id']}/complete", packed, MSGPACK))

    for task_id in (held["id"], packed_held["id"]):
        alone = await api.client.get(f"/v1/tasks/{task_id}/result")
        assert (alone.content, alone.headers["content-type"]) == (data, "image/png")
        assert (await api.get(task_id, include="result"))["result_base64"] == given["result_base64"]


async def test_never_given_is_not_empty_and_not_null(api: Api) -> None:
    never = await api.submit()
    empty = await api.submit(payload_base64="")
    null = await api.submit(payload=None)

    refused(await api.client.get(f"/v1/tasks/{never['id']}/payload"), 404, "payload_not_found")
    assert (await api.client.get(f"/v1/tasks/{empty['id']}/payload")).content == b""
    assert (await api.client.get(f"/v1/tasks/{null['id']}/payload")).content == b"null"
    read = [await api.get(task["id"], include="payload") for task in (never, empty, null)]
    names = ("payload", "payload_base64", "content_type")
    assert [{name: task[name] for name in names if name in task} for task in read] == [
        {},
        {"payload_base64": "", "content_type": "application/octet-stream"},
        {"payload": None, "content_type": JSON},
    ]
    assert [task.get("payload", "none") for task in await api.claim(count=3)] == ["none", "none", None]


async def test_a_result_never_given_is_not_empty_and_not_null(api: Api) -> None:
    ended = []
    for given in ({}, {"result_base64": ""}, {"result": None}):
        held = await api.submit_held()
        await api.complete(held["id"], delivery=1, **given)
        ended.append(held["id"])

    never, empty, null = ended
    refused(await api.client.get(f"/v1/tasks/{never}/result"), 404, "result_not_found")
    assert (await api.client.get(f"/v1/tasks/{empty}/result")).content == b""
    assert (await api.client.get(f"/v1/tasks/{null}/result")).content == b"null"
    assert "result" not in await api.get(never, include="result")
    assert (await api.get(null, include="result"))["result"] is None


@pytest.mark.parametrize("state", ["submitted-working", "moved"], ids=["progress", "move"])
async def test_an_update_without_a_payload_keeps_it_and_one_with_it_replaces_it(api: Api, state: str) -> None:
    kept = await api.submit_held(payload_base64="AAE=", content_type="image/png")
    replaced = await api.submit_held(payload_base64="AAE=", content_type="image/png")
    given_late = await api.submit_held()

    for held, given in ((kept, {}), (replaced, {"payload": {"n": 1}}), (given_late, {"payload_base64": "Ag=="})):
        await api.update(held["id"], delivery=1, new_state=state, **given)

    names = ("payload", "payload_base64", "content_type")
    read = [await api.get(held["id"], include="payload") for held in (kept, replaced, given_late)]
    assert [{name: task[name] for name in names if name in task} for task in read] == [
        {"payload_base64": "AAE=", "content_type": "image/png"},
        {"payload": {"n": 1}, "content_type": JSON},
        {"payload_base64": "Ag==", "content_type": "application/octet-stream"},
    ]


async def test_a_payload_lives_through_every_transition(api: Api) -> None:
    task = await api.submit(payload={"p": 1}, delay=0.05, auto_target_state="t", timeout=60)
    await api.until_ready(task["id"])
    await api.claim()
    await api.release(task["id"], delivery=1)
    await api.claim()
    await api.clean_up()
    [held] = await api.claim(current_state="submitted")
    assert held["payload"] == {"p": 1}
    await api.update(task["id"], delivery=3, new_state="n")
    [held] = await api.claim(current_state="n")
    await api.complete(task["id"], delivery=4)

    assert (await api.get(task["id"], include="payload"))["payload"] == {"p": 1}


async def test_json_of_another_media_type_is_json_all_the_same(api: Api) -> None:
    task = await api.submit(payload={"a": 1}, content_type="application/vnd.api+json; v=2")

    read = await api.get(task["id"], include="payload")

    assert (read["payload"], read["content_type"]) == ({"a": 1}, "application/vnd.api+json; v=2")


@pytest.mark.parametrize("media_type", ["text/html", "TEXT/HTML", "image/svg+xml", "application/xhtml+xml", "text/xml"])
async def test_a_payload_never_runs_in_a_browser(api: Api, media_type: str) -> None:
    script = b"<html><script>alert(1)</script></html>"
    response = await api.client.post(
        "/v1/tasks/raw", params={"queue": api.queue}, content=script, headers={"Content-Type": media_type}
    )

    payload = await api.client.get(f"/v1/tasks/{done(response, 201)['task']['id']}/payload")

    assert (payload.content, payload.headers["content-type"]) == (script, media_type)
    assert payload.headers["x-content-type-options"] == "nosniff"
    assert payload.headers["content-security-policy"] == "sandbox"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"payload": 1}, "payload"),
        ({"payload": "text"}, "payload"),
        ({"payload": {"a": 1}}, "payload"),
        ({"payload": None}, "payload"),
        ({"payload": b""}, "payload"),
        ({"payload": b" "}, "payload"),
        ({"payload": b"{'a': 1}"}, "payload"),
        ({"payload": b"NaN"}, "payload"),
        ({"payload": b"1 2"}, "payload"),
        ({"payload": b'"\xff"'}, "payload"),
        ({"payload": rb'"\ud800"'}, "payload"),
        ({"payload": b"\xef\xbb\xbf1"}, "payload"),
        ({"payload": b"[" * 100_000}, "payload"),
        ({"payload_base64": 1}, "payload_base64"),
        ({"payload_base64": None}, "payload_base64"),
        ({"payload": b"1", "payload_base64": b"1"}, "payload_base64"),
    ],
)
async def test_messagepack_refuses_what_holds_no_json(api: Api, body: Fields, field: str) -> None:
    packed = msgspec.msgpack.encode({"queue": api.queue} | body)

    await api.refuses(await api.send("POST", "/v1/tasks", packed, MSGPACK), 400, "invalid", field)


@pytest.mark.parametrize(
    "text",
    [
        rb'"\ud800"',
        rb'"\udc00"',
        rb'{"\ud800": 1}',
        rb'["\ud83d\u0041"]',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'"\xc3"',
        b'"\xc0\x80"',
        b'"\xf4\x90\x80\x80"',
        b'"\x00"',
        b'"\n"',
        b"NaN",
        b"-Infinity",
        b"01",
        b"1.",
        b".5",
        b"+1",
        b"0x10",
        b"'a'",
        b"[1,]",
        b"{,}",
        b"undefined",
        b"",
    ],
)
async def test_what_is_not_json_is_refused_and_the_holder_can_still_finish(api: Api, text: bytes) -> None:
    held = await api.submit_held()
    path = f"/v1/tasks/{held['id']}/complete"

    refusal = await api.send("POST", path, b'{"delivery":1,"result":%s}' % text)

    await api.refuses_to_change(held, refusal, 400, "malformed_body")
    assert done(await api.send("POST", path, b'{"delivery":1,"result":"better"}'))["task"]["phase"] == "completed"
