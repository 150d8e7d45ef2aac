"""Submitting: design section 3, row `submit`."""

import re

import pytest

from tests.api.calls import Api, done, is_uuid, refused, seconds_between

DEFAULTS = {
    "kind": None,
    "current_state": "submitted",
    "auto_target_state": "submitted-working",
    "phase": "ready",
    "home_state": "submitted",
    "home_target": "submitted-working",
    "priority": 0,
    "timeout": None,
    "work_timeout": None,
    "due_time": None,
    "delivery": 0,
    "held_by": None,
    "claim_time": None,
    "attempt": 0,
    "max_attempts": 3,
    "backoff": 5.0,
    "backoff_max": 3600.0,
    "backoff_multiplier": 2.0,
    "jitter": "full",
    "lost": 0,
    "max_lost": None,
    "job_id": None,
    "name": None,
    "waiting_on": 0,
    "last_error": None,
    "metadata": None,
    "canceled_by": None,
}


async def test_a_submit_without_anything_has_all_defaults(api: Api) -> None:
    task = await api.submit()

    assert task.items() >= (DEFAULTS | {"queue": api.queue}).items()
    assert is_uuid(task["id"])
    assert task["submit_time"] == task["update_time"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", task["submit_time"])
    assert task.keys() == DEFAULTS.keys() | {"id", "queue", "submit_time", "update_time"}
    assert await api.get(task["id"]) == task


async def test_the_default_queue_is_called_default(api: Api) -> None:
    task = done(await api.post("/v1/tasks", kind=api.queue), 201)["task"]

    assert task["queue"] == "default"
    await api.cancel(task["id"])


async def test_a_submit_keeps_all_that_is_given(api: Api) -> None:
    given = {
        "kind": "mail",
        "current_state": "new",
        "auto_target_state": "sending",
        "priority": -7,
        "timeout": 86400.000001,
        "work_timeout": 0.5,
        "max_attempts": None,
        "backoff": 0.0,
        "backoff_max": 315360000.0,
        "backoff_multiplier": 1.5,
        "jitter": "none",
        "max_lost": 2,
        "metadata": {"trace": "abc", "labels": [1, None, {"x": 2.5}]},
    }

    task = await api.submit(**given)

    assert task.items() >= given.items()
    assert (task["home_state"], task["home_target"]) == ("new", "sending")
    assert seconds_between(task["submit_time"], task["due_time"]) == pytest.approx(86400.000001, abs=1e-7)
    assert await api.get(task["id"]) == task


async def test_a_timeout_of_zero_is_none_and_a_work_timeout_of_zero_is_kept(api: Api) -> None:
    task = await api.submit(timeout=0, work_timeout=0)

    assert (task["timeout"], task["due_time"], task["work_timeout"]) == (None, None, 0.0)


async def test_nulls_are_defaults(api: Api) -> None:
    names = ("kind", "auto_target_state", "delay", "run_at", "timeout", "work_timeout", "max_lost", "metadata")

    task = await api.submit(**dict.fromkeys(names), content_type=None)

    assert task.items() >= DEFAULTS.items()


@pytest.mark.parametrize("clock", [0.000001, 1, 315360000])
async def test_a_clock_without_a_target_is_refused_and_work_timeout_is_named(api: Api, clock: float) -> None:
    refusal = await api.try_submit(timeout=clock)

    problem = await api.refuses(refusal, 400, "invalid", "timeout")
    assert "work_timeout" in problem["detail"]
    assert "auto_target_state" in problem["detail"]


async def test_a_raw_submit_takes_its_fields_from_the_query(api: Api) -> None:
    query = {
        "queue": api.queue,
        "kind": "photo",
        "current_state": "new",
        "auto_target_state": "old",
        "priority": "12",
        "timeout": "1.5",
        "work_timeout": "2e1",
        "max_attempts": "null",
        "backoff_multiplier": "3",
        "jitter": "none",
    }

    response = await api.client.post(
        "/v1/tasks/raw", params=query, content=b"\x89PNG", headers={"Content-Type": "image/png"}
    )

    task = done(response, 201)["task"]
    assert task["queue"] == api.queue
    assert task["kind"] == "photo"
    assert (task["current_state"], task["auto_target_state"], task["priority"]) == ("new", "old", 12)
    assert (task["timeout"], task["work_timeout"], task["max_attempts"]) == (1.5, 20.0, None)
    assert (task["backoff_multiplier"], task["jitter"]) == (3.0, "none")
    payload = await api.client.get(f"/v1/tasks/{task['id']}/payload")
    assert (payload.content, payload.headers["content-type"]) == (b"\x89PNG", "image/png")


async def test_a_raw_submit_without_a_body_has_an_empty_payload(api: Api) -> None:
    task = done(await api.client.post("/v1/tasks/raw", params={"queue": api.queue}), 201)["task"]

    payload = await api.client.get(f"/v1/tasks/{task['id']}/payload")
    assert (payload.status_code, payload.content) == (200, b"")
    assert payload.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("query", "field", "code"),
    [
        ("priority=2147483648", "priority", "invalid"),
        ("priority=1.5", "priority", "invalid"),
        ("priority=", "priority", "invalid"),
        ("delay=nan", "delay", "invalid"),
        ("delay=inf", "delay", "invalid"),
        ("delay=-1", "delay", "invalid"),
        ("delay=1e-7", "delay", "invalid"),
        ("delay=null", "delay", "invalid"),
        ("delay=1&run_at=2030-01-01T00:00:00Z", "run_at", "invalid"),
        ("timeout=5", "timeout", "invalid"),
        ("backoff_multiplier=nan", "backoff_multiplier", "invalid"),
        ("jitter=some", "jitter", "invalid"),
        ("kind=", "kind", "invalid"),
        ("kind=a%0A", "kind", "invalid"),
        ("current_state=" + "s" * 241, "current_state", "invalid"),
        ("current_state=a&current_state=a", "current_state", "invalid"),
        ("payload=1", "payload", "unknown_field"),
        ("metadata=%7B%7D", "metadata", "unknown_field"),
        ("Priority=1", "Priority", "unknown_field"),
    ],
)
async def test_a_raw_submit_refuses_what_a_submit_does(api: Api, query: str, field: str, code: str) -> None:
    refusal = await api.client.post(f"/v1/tasks/raw?queue={api.queue}&{query}", content=b"x")

    await api.refuses(refusal, 400, code, field)


async def test_tasks_submitted_with_one_completion_come_first_in_first_out(api: Api) -> None:
    held = await api.submit_held(current_state="start")
    wanted = [{"queue": api.queue, "kind": f"n{place}"} for place in range(20)]

    completed = await api.complete(held["id"], delivery=1, next_tasks=wanted)

    claimed = await api.claim(count=100)
    assert [task["id"] for task in claimed] == completed["next_tasks"]
    assert [task["kind"] for task in claimed] == [f"n{place}" for place in range(20)]


async def test_ids_are_of_version_7(api: Api) -> None:
    assert (await api.submit())["id"][14] == "7"


async def test_fields_of_another_type_are_named(api: Api) -> None:
    for field, value in {"queue": 1, "kind": [], "priority": "1", "metadata": [], "work_timeout": "1"}.items():
        refused(await api.try_submit(**{field: value}), 400, "invalid", field)
    assert await api.list() == []
