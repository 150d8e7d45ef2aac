"""Addresses that no call has: ids, paths, methods and queries."""

import http.client
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.api.calls import PROBLEM, WRITES, Api, Fields, call_of, refused, unknown_id

NOBODY = "00000000-0000-4000-8000-000000000000"

# Ids --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task_id",
    [
        "x",
        "0",
        "null",
        "00000000-0000-0000-0000-00000000000",
        "00000000-0000-0000-0000-0000000000000",
        "00000000000000000000000000000000",
        "{00000000-0000-0000-0000-000000000000}",
        "urn:uuid:00000000-0000-0000-0000-000000000000",
        "0000000g-0000-0000-0000-000000000000",
        "00000000-0000-0000-0000-000000000000%0A",
        "%EF%BC%90%EF%BC%90000000-0000-0000-0000-000000000000",
        "%00",
        "%FF",
        "%20",
        "..%5C",
        "a" * 3000,
    ],
)
async def test_what_is_no_id_is_refused_by_every_call(api: Api, task_id: str) -> None:
    for path in (task_id, f"{task_id}/payload", f"{task_id}/result"):
        refused(await api.client.get(f"/v1/tasks/{path}"), 400, "invalid", "id")
    for write in WRITES:
        method, path = call_of(write, task_id)
        refused(await api.client.request(method, path, json={"delivery": 1}), 400, "invalid", "id")


async def test_an_unknown_id_is_not_found_by_any_call(api: Api) -> None:
    for task_id in (unknown_id(), "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"):
        for path in (task_id, f"{task_id}/payload", f"{task_id}/result"):
            refused(await api.client.get(f"/v1/tasks/{path}"), 404, "task_not_found")
        for write in WRITES:
            method, path = call_of(write, task_id)
            problem = refused(await api.client.request(method, path, json={"delivery": 1}), 404, "task_not_found")
            assert task_id in problem["detail"]


async def test_an_id_in_upper_case_is_the_same_id(api: Api) -> None:
    task = await api.submit(payload=1)

    assert (await api.get(task["id"].upper()))["id"] == task["id"]
    assert (await api.client.get(f"/v1/tasks/{task['id'].upper()}/payload")).content == b"1"
    assert (await api.cancel(task["id"].upper()))["task"]["id"] == task["id"]


# Paths and methods ------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v2/tasks",
        "/v1/task",
        "/v1/tasks/next/x",
        "/v1/queues/x",
        "/V1/tasks",
        "/v1/tasks/a%2Fb",
        "/favicon.ico",
        "/%00",
        "/%FF",
        "/docs/assets/x",
        "/docs/assets/%00",
        "/docs/assets/..%2F..%2Fetc%2Fpasswd",
        "/docs/assets/../../etc/passwd",
        "/docs/assets/" + "a" * 5000,
        f"/v1/tasks/{NOBODY}/runs/x",
    ],
)
async def test_unknown_paths_are_not_found(api: Api, path: str) -> None:
    status, headers, body = raw(api, "GET", path)

    assert (status, headers["content-type"]) == (404, PROBLEM)
    assert msgspec.json.decode(body)["code"] == "no_such_path"


TASK = f"/v1/tasks/{NOBODY}"
METHODS = {
    "/v1/tasks": {"GET", "POST"},
    "/v1/tasks/raw": {"POST"},
    "/v1/tasks/next": {"POST"},
    TASK: {"GET", "PATCH"},
    f"{TASK}/payload": {"GET"},
    f"{TASK}/result": {"GET"},
    f"{TASK}/complete": {"POST"},
    f"{TASK}/release": {"POST"},
    f"{TASK}/cancel": {"POST"},
    "/v1/cleanup-timed-out": {"POST"},
    "/v1/queues": {"GET"},
    "/v1/queues/task-counts": {"GET"},
    "/v1/queues/state-counts": {"GET"},
    "/v1/state-counts": {"GET"},
    "/healthz": {"GET"},
    "/readyz": {"GET"},
    "/openapi.json": {"GET"},
    "/docs": {"GET"},
}


@pytest.mark.parametrize(("path", "methods"), METHODS.items())
async def test_other_methods_are_refused_and_told_which_there_are(api: Api, path: str, methods: set[str]) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "WHATEVER"):
        if method in methods:
            continue
        status, headers, body = raw(api, method, path)
        assert (status, headers["content-type"]) == (405, PROBLEM)
        assert set(headers["allow"].split(", ")) == methods | {"OPTIONS"}
        if method != "HEAD":
            assert msgspec.json.decode(body)["code"] == "method_not_allowed"
    status, headers, body = raw(api, "OPTIONS", path)
    assert (status, body) == (204, b"")
    assert set(headers["allow"].split(", ")) == methods | {"OPTIONS"}


def raw(api: Api, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    """Send a request as it is: httpx would mend its path."""
    url = urlsplit(str(api.client.base_url))
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        connection.putheader("Content-Length", "0")
        connection.endheaders()
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()
    finally:
        connection.close()


# Queries ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=1001", "limit"),
        ("limit=9223372036854775808", "limit"),
        ("limit=1.5", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=null", "limit"),
        ("limit=0x10", "limit"),
        ("limit=%205", "limit"),
        ("limit=1_0", "limit"),
        ("limit=%D9%A3", "limit"),
        ("limit=1%00", "limit"),
        ("archived=yes", "archived"),
        ("archived=", "archived"),
        ("archived=null", "archived"),
        ("archived=2", "archived"),
        ("phase=READY", "phase"),
        ("phase=null", "phase"),
        ("phase=ready,held", "phase"),
        ("job_id=x", "job_id"),
        ("job_id=null", "job_id"),
        ("include=all", "include"),
        ("include=", "include"),
        ("include=null", "include"),
        ("include=payload,payload", "include"),
        ("queue=", "queue"),
        ("queue=a%00", "queue"),
        ("queue=a%0A", "queue"),
        ("queue=%C2%85", "queue"),
        ("queue=%FF", "queue"),
        ("queue=%ED%A0%80", "queue"),
        ("queue=a&queue=a", "queue"),
        ("queue=" + "q" * 256, "queue"),
        ("current_state=" + "q" * 256, "current_state"),
        ("kind=" + "q" * 3000, "kind"),
        ("worker_id=%7F", "worker_id"),
        ("submitted_after=2030-01-01", "submitted_after"),
        ("submitted_after=2030-01-01T00:00:00", "submitted_after"),
        ("submitted_after=2030-01-01T00:00:00+01:00", "submitted_after"),  # a plus sign is a space
        ("submitted_before=1893456000", "submitted_before"),
        ("submitted_before=0001-01-01T00:00:00%2B00:01", "submitted_before"),
        ("submitted_before=9999-12-31T23:59:59-00:01", "submitted_before"),
        ("submitted_before=2016-12-31T23:59:60Z", "submitted_before"),
    ],
)
async def test_bad_parameters_of_a_listing_are_refused(api: Api, query: str, field: str) -> None:
    refused(await api.client.get(f"/v1/tasks?{query}"), 400, "invalid", field)


@pytest.mark.parametrize("query", ["queues=a", "Queue=a", "queue%20=a", "limit[]=1", "=1", "x", "%C3%A9=1", "x" * 3000])
async def test_unknown_parameters_are_refused_by_every_call(api: Api, query: str) -> None:
    held = await api.submit_held(payload=1)
    paths = [path for path in METHODS if path.startswith("/v1") and not path.startswith(TASK)]
    paths += [path.replace(TASK, f"/v1/tasks/{held['id']}") for path in METHODS if path.startswith(TASK)]

    for path in paths:
        for method in METHODS.get(path, METHODS.get(path.replace(held["id"], TASK.rpartition("/")[2]), set())):
            body = {"delivery": 1} if method != "GET" and held["id"] in path else {} if method != "GET" else None
            refusal = await api.client.request(method, f"{path}?{query}", json=body)
            problem = refusal.json()
            await api.refuses_to_change(held, refusal, 400, "unknown_field", problem.get("field"))


async def test_a_state_count_needs_a_queue(api: Api) -> None:
    refused(await api.client.get("/v1/state-counts"), 400, "invalid", "queue")
    refused(await api.client.get("/v1/state-counts?queue="), 400, "invalid", "queue")


async def test_empty_parts_of_a_query_dont_matter(api: Api) -> None:
    assert (await api.client.get(f"/v1/tasks?&&queue={api.queue}&")).json() == {"tasks": [], "next_cursor": None}


async def test_a_text_that_looks_like_null_is_a_name(api: Api) -> None:
    task = await api.submit(kind="null")

    for kind, found in (("null", [task]), ("NULL", [])):
        assert await api.list(kind=kind) == found


async def test_a_body_of_a_read_does_nothing(api: Api) -> None:
    body: Fields = {"queue": "elsewhere"}

    response = await api.client.request("GET", "/v1/tasks", params={"queue": api.queue}, json=body)

    assert response.json()["tasks"] == []
