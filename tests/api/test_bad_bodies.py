"""Bodies that no call takes: broken, of another form, with fields that there are not."""

from typing import Any

import msgspec
import pytest

from tests.api.calls import JSON, MSGPACK, PROBLEM, WRITES, Api, Fields, call_of, unknown_id

# Bodies -----------------------------------------------------------------------

BROKEN_JSON = [
    b"{",
    b"}",
    b"{]",
    b'{"queue"',
    b'{"queue":',
    b'{"queue":"a"',
    b'{"queue":"a}',
    b'{"queue" "a"}',
    b"{'queue':'a'}",
    b"{queue:1}",
    b'{"queue":"a",}',
    b'{"queue":"a"}}',
    b'{"queue":"a"} {"queue":"b"}',
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\x00}\x00",
    b"{\x00}",
    b"// comment\n{}",
    b"\x00",
    b"\x80",
    b'{"delivery":NaN}',
    b"undefined",
    b'{"queue":"\xff"}',
    b"{" * 100_000,
    b"[" * 100_000,
    b'{"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"metadata":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    b'{"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
]
BROKEN_MSGPACK = [
    b"\xc1",
    b"\x81",
    b"\x81\xa5queue",
    b"\x81\xa5queue\xa5ab",
    b"\x81\xa5queue\xdb\xff\xff\xff\xffab",
    b"\xdf\xff\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\x80\x80",
    b"\x81\xa5qu\xffue\xa1a",
    b"\x81\xa7payload" + b"\x91" * 100_000 + b"\x01",
    b"\x81\xa8metadata" + b"\x81\xa1a" * 100_000 + b"\x01",
    b"\x91" * 100_000,
]
NO_OBJECTS = [b"null", b"true", b"1", b"1.5", b'"text"', b"[]", b"[{}]"]


@pytest.mark.parametrize("body", BROKEN_JSON, ids=lambda body: repr(body[:24]))
async def test_broken_json_is_refused_by_every_call(api: Api, body: bytes) -> None:
    await _refused_by_every_call(api, body, JSON, {"malformed_body", "unknown_field", "invalid"})


@pytest.mark.parametrize("body", BROKEN_MSGPACK, ids=lambda body: repr(body[:24]))
async def test_broken_messagepack_is_refused_by_every_call(api: Api, body: bytes) -> None:
    await _refused_by_every_call(api, body, MSGPACK, {"malformed_body", "unknown_field", "invalid"})


@pytest.mark.parametrize("content_type", [JSON, MSGPACK])
@pytest.mark.parametrize("body", NO_OBJECTS, ids=repr)
async def test_a_body_that_is_no_object_is_refused_by_every_call(api: Api, body: bytes, content_type: str) -> None:
    packed = msgspec.msgpack.encode(msgspec.json.decode(body)) if content_type == MSGPACK else body

    await _refused_by_every_call(api, packed, content_type, {"invalid"})


async def _refused_by_every_call(api: Api, body: bytes, content_type: str, codes: set[str]) -> None:
    held = await api.submit_held()
    calls = [("POST", "/v1/tasks"), ("POST", "/v1/tasks/next"), ("POST", "/v1/cleanup-timed-out")]
    for method, path in calls + [call_of(write, held["id"]) for write in WRITES]:
        refusal = await api.send(method, path, body, content_type)
        problem = refusal.json()
        assert problem["code"] in codes
        await api.refuses_to_change(held, refusal, 400, problem["code"], problem.get("field"))


@pytest.mark.parametrize("write", ["submit", "claim", *WRITES, "clean up"])
async def test_unknown_fields_are_refused_by_every_call(api: Api, write: str) -> None:
    held = await api.submit_held()
    others = {"submit": "/v1/tasks", "claim": "/v1/tasks/next", "clean up": "/v1/cleanup-timed-out"}
    method, path = ("POST", others[write]) if write in others else call_of(write, held["id"])

    for field in ("Queue", "queue ", "", "__proto__", "é", "job_id", "x" * 500, 'a"b', "a`b", "\n"):
        refusal = await api.client.request(
            method, path, json={"delivery": 1, field: 1} if write in WRITES else {field: 1}
        )
        await api.refuses_to_change(held, refusal, 400, "unknown_field", field or None)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", ["x", "é", " - at `$", " - at `$\n", "`", "Object contains unknown field `", "\u0000"])
async def test_a_name_as_long_as_the_body_is_cut_and_costs_little(api: Api, part: str) -> None:
    name = part * (1_000_000 // len(part)) + "\n"
    responses = [
        await api.post("/v1/tasks", **{name: 1}),
        await api.post("/v1/tasks", jitter=name),
        await api.client.patch(f"/v1/tasks/{unknown_id()}", json={name: 1}),
        await api.post(f"/v1/tasks/{unknown_id()}/complete", delivery=1, next_tasks=[{name: 1}]),
        await api.client.get("/v1/tasks", params={name[:5000]: "1"}),
        await api.client.get("/v1/tasks", params={"phase": name[:5000]}),
        await api.send("POST", "/v1/tasks", "{}", "x/" + "y" * 5000),
    ]

    for response in responses:
        assert response.status_code in {400, 415}
        assert response.headers["content-type"] == PROBLEM
        assert len(response.content) < 5000


@pytest.mark.parametrize("place", ["next_task", "next_tasks"])
async def test_unknown_fields_deep_inside_are_named_with_their_path(api: Api, place: str) -> None:
    held = await api.submit_held()
    inner: Any = {"quueue": "x"} if place == "next_task" else [{}, {}, {"quueue": "x"}]

    refusal = await api.try_complete(held["id"], delivery=1, **{place: inner})

    path = "next_task.quueue" if place == "next_task" else "next_tasks[2].quueue"
    await api.refuses_to_change(held, refusal, 400, "unknown_field", path)


@pytest.mark.parametrize("write", WRITES)
async def test_fields_of_the_wrong_type_are_refused_by_every_write(api: Api, write: str) -> None:
    held = await api.submit_held()
    method, path = call_of(write, held["id"])

    wrong: tuple[Fields, ...] = (
        {"queue": 1},
        {"queue": []},
        {"current_state": True},
        {"current_state": {}},
        {"delivery": "1"},
        {"delivery": True},
        {"delivery": 1.0},
        {"delivery": [1]},
        {"delivery": 2**64},
        {"delivery": -(2**63) - 1},
    )

    for fields in wrong:
        refusal = await api.client.request(method, path, json={"delivery": 1} | fields)
        await api.refuses_to_change(held, refusal, 400, "invalid", next(iter(fields)))
