"""JSON and MessagePack, both ways, by Content-Type and Accept."""

from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest

from tests.api.calls import FUTURE, JSON, MSGPACK, Api, Fields, refused

BOTH = pytest.mark.parametrize("sent", [JSON, MSGPACK])
BOTH_ANSWERS = pytest.mark.parametrize("answered", [JSON, MSGPACK])


class Speaker:
    """Sends one encoding and asks for another."""

    def __init__(self, client: httpx.AsyncClient, sent: str, answered: str) -> None:
        self._client = client
        self._sent = sent
        self._answered = answered

    async def call(self, method: str, path: str, body: Fields | None = None) -> Any:  # noqa: ANN401
        headers = {"Accept": self._answered}
        content = None
        if body is not None:
            headers["Content-Type"] = self._sent
            content = msgspec.json.encode(body) if self._sent == JSON else msgspec.msgpack.encode(body)
        response = await self._client.request(method, path, content=content, headers=headers)
        assert response.is_success, response.content
        assert response.headers["content-type"] == self._answered
        if self._answered == JSON:
            return msgspec.json.decode(response.content)
        return msgspec.msgpack.decode(response.content)


@BOTH
@BOTH_ANSWERS
async def test_a_life_in_every_mix_of_encodings(api: Api, sent: str, answered: str) -> None:
    speaker = Speaker(api.client, sent, answered)
    payload: Any = {"n": 1} if sent == JSON else b'{"n":1}'
    shown: Any = {"n": 1} if answered == JSON else b'{"n":1}'

    submitted = await speaker.call("POST", "/v1/tasks", {"queue": api.queue, "payload": payload, "work_timeout": 1.5})
    task_id = submitted["task"]["id"]
    [held] = (await speaker.call("POST", "/v1/tasks/next", {"queue": api.queue, "worker_id": "é"}))["tasks"]
    assert (held["payload"], held["held_by"], held["timeout"]) == (shown, "é", 1.5)
    assert datetime.fromisoformat(held["due_time"]).tzinfo == UTC
    progress = await speaker.call("PATCH", f"/v1/tasks/{task_id}", {"delivery": 1, "priority": -3})
    assert (progress["task"]["priority"], progress["replayed"]) == (-3, False)
    released = await speaker.call("POST", f"/v1/tasks/{task_id}/release", {"delivery": 1})
    assert released["task"]["phase"] == "ready"
    await speaker.call("POST", "/v1/tasks/next", {"queue": api.queue})
    swept = await speaker.call("POST", "/v1/cleanup-timed-out", {"queue": api.queue, "at_time": FUTURE})
    assert swept == {"timed_out": 1}
    await speaker.call("POST", "/v1/tasks/next", {"queue": api.queue})
    next_task = {"queue": api.queue, "payload": payload}
    completed = await speaker.call(
        "POST", f"/v1/tasks/{task_id}/complete", {"delivery": 3, "result": payload, "next_tasks": [next_task]}
    )
    [next_id] = completed["next_tasks"]
    canceled = await speaker.call("POST", f"/v1/tasks/{next_id}/cancel", {"queue": api.queue})
    assert canceled["task"]["phase"] == "canceled"

    read = (await speaker.call("GET", f"/v1/tasks/{task_id}?include=payload,result"))["task"]
    assert (read["payload"], read["result"], read["phase"]) == (shown, shown, "completed")
    page = await speaker.call("GET", f"/v1/tasks?queue={api.queue}&archived=true&include=payload")
    assert [task["id"] for task in page["tasks"]] == [task_id, next_id]
    assert page["tasks"][1]["payload"] == shown
    assert (await speaker.call("GET", f"/v1/state-counts?queue={api.queue}"))["count"] == 0
    for path in ("/v1/queues", "/v1/queues/task-counts", "/v1/queues/state-counts", "/healthz", "/readyz"):
        assert await speaker.call("GET", path)


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/html", JSON),
        (MSGPACK, MSGPACK),
        ("APPLICATION/MsgPack", MSGPACK),
        (f"{MSGPACK}, */*", MSGPACK),
        (f"{JSON}, {MSGPACK}", JSON),
        (f"{JSON};q=0.5, {MSGPACK}", MSGPACK),
        (f"{JSON}, {MSGPACK};q=0.5", JSON),
        (f"{MSGPACK};q=0, {JSON}", JSON),
        (f"{MSGPACK};q=x", MSGPACK),
        (f"{MSGPACK};q=1e999", JSON),
        (f"{MSGPACK};q=nan", MSGPACK),
        (f";;,,{MSGPACK};=;q", MSGPACK),
    ],
)
async def test_the_answer_is_what_the_client_likes_better(api: Api, accept: str | None, answered: str) -> None:
    request = api.client.build_request("GET", "/v1/queues")
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept

    response = await api.client.send(request)

    assert (response.status_code, response.headers["content-type"]) == (200, answered)


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json ;a=b"]
)
async def test_parameters_and_case_of_the_content_type_dont_matter(api: Api, content_type: str) -> None:
    body = b'{"queue":"%s","kind":"\xc3\xa9"}' % api.queue.encode()

    response = await api.send("POST", "/v1/tasks", body, content_type)

    assert response.json()["task"]["kind"] == "é"


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/octet-stream",
        "application/jsonx",
        "application/x-msgpack",
        "application",
        "json",
        "",
        ";charset=utf-8",
        "application/json, application/json",
    ],
)
async def test_other_content_types_are_refused(api: Api, content_type: str) -> None:
    held = await api.submit_held()
    task_path = f"/v1/tasks/{held['id']}"

    for method, path in (
        ("POST", "/v1/tasks"),
        ("POST", "/v1/tasks/next"),
        ("PATCH", task_path),
        ("POST", f"{task_path}/complete"),
        ("POST", f"{task_path}/release"),
        ("POST", f"{task_path}/cancel"),
        ("POST", "/v1/cleanup-timed-out"),
    ):
        refusal = await api.send(method, path, b'{"delivery":1}', content_type)
        problem = await api.refuses_to_change(held, refusal, 415, "unsupported_media_type", "Content-Type")
        assert JSON in problem["detail"]
        assert MSGPACK in problem["detail"]


async def test_no_content_type_is_refused(api: Api) -> None:
    request = api.client.build_request("POST", "/v1/tasks", content=b"{}")
    assert "content-type" not in request.headers

    await api.refuses(await api.client.send(request), 415, "unsupported_media_type", "Content-Type")


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "x"])
async def test_compressed_bodies_are_refused(api: Api, coding: str) -> None:
    for path in ("/v1/tasks", f"/v1/tasks/raw?queue={api.queue}"):
        refusal = await api.client.post(
            path,
            content=b'{"queue":"%s"}' % api.queue.encode(),
            headers={"Content-Type": JSON, "Content-Encoding": coding},
        )
        await api.refuses(refusal, 415, "unsupported_media_type", "Content-Encoding")


async def test_refusals_are_problems_in_json_whatever_is_asked_for(api: Api) -> None:
    for accept in (MSGPACK, "text/html", "image/png;q=1"):
        response = await api.client.post("/v1/tasks", json={"queue": ""}, headers={"Accept": accept})
        refused(response, 400, "invalid", "queue")
