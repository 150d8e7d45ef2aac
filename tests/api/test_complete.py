"""Completing: design section 3, row `complete`, next tasks, and replays."""

from typing import Any

import pytest

from tests.api.calls import Api, Fields, done, refused, unknown_id


async def test_a_completion_archives_the_task(api: Api) -> None:
    held = await api.submit_held(payload={"x": 1}, kind="k", metadata={"m": 1})

    completed = await api.complete(held["id"], delivery=1, result={"y": 2})

    task = completed["task"]
    assert completed == {"task": task, "next_tasks": [], "replayed": False}
    assert (task["phase"], task["current_state"], task["auto_target_state"]) == ("completed",) * 3
    assert (task["timeout"], task["due_time"]) == (None, None)
    kept = (
        "home_state",
        "home_target",
        "delivery",
        "held_by",
        "claim_time",
        "kind",
        "metadata",
        "submit_time",
        "queue",
    )
    assert {name: task[name] for name in kept} == {name: held[name] for name in kept}
    assert await api.get(held["id"]) == task
    full = await api.get(held["id"], include="payload,result")
    assert (full["payload"], full["result"]) == ({"x": 1}, {"y": 2})
    assert (full["content_type"], full["result_content_type"]) == ("application/json",) * 2
    assert await api.list() == []
    assert await api.list(archived=True) == [task]
    assert await api.counts() == {}


async def test_an_unheld_task_is_completed_by_its_state(api: Api) -> None:
    task = await api.submit()

    completed = (await api.complete(task["id"], current_state="submitted"))["task"]

    assert (completed["phase"], completed["delivery"], completed["claim_time"]) == ("completed", 0, None)


async def test_a_parked_task_is_completed_by_its_state(api: Api) -> None:
    task = await api.submit(delay=3600)

    completed = (await api.complete(task["id"], current_state="submitted-scheduled", queue=api.queue))["task"]

    assert completed["phase"] == "completed"


async def test_a_next_task_inherits_nothing(api: Api) -> None:
    held = await api.submit_held(
        kind="k", priority=5, work_timeout=7, max_attempts=9, metadata={"m": 1}, payload="p", current_state="s"
    )

    completed = await api.complete(held["id"], delivery=1, next_task={"current_state": api.queue})

    [next_id] = completed["next_tasks"]
    task = await api.get(next_id, include="payload")
    assert task["queue"] == "default"
    assert (task["kind"], task["priority"], task["work_timeout"], task["max_attempts"]) == (None, 0, None, 3)
    assert (task["metadata"], task["phase"], task["delivery"]) == (None, "ready", 0)
    assert "payload" not in task
    await api.cancel(next_id)


async def test_next_tasks_keep_all_that_is_given(api: Api) -> None:
    held = await api.submit_held(current_state="s")

    completed = await api.complete(
        held["id"],
        delivery=1,
        next_tasks=[
            {"queue": api.queue, "priority": 3, "payload": [1], "metadata": {"a": 1}, "kind": "x"},
            {"queue": api.queue, "delay": 3600, "payload_base64": "AAE=", "content_type": "image/png"},
            {"queue": api.queue, "timeout": 60, "auto_target_state": "t"},
        ],
    )

    first, second, third = [await api.get(next_id, include="payload") for next_id in completed["next_tasks"]]
    assert (first["priority"], first["payload"], first["metadata"], first["kind"]) == (3, [1], {"a": 1}, "x")
    assert (second["phase"], second["current_state"]) == ("parked", "submitted-scheduled")
    assert (second["payload_base64"], second["content_type"]) == ("AAE=", "image/png")
    assert (third["timeout"], third["auto_target_state"]) == (60.0, "t")


@pytest.mark.parametrize("nothing", [{}, {"next_task": None}, {"next_tasks": None}, {"next_tasks": []}])
async def test_no_next_tasks(api: Api, nothing: Fields) -> None:
    held = await api.submit_held()

    assert (await api.complete(held["id"], delivery=1, **nothing))["next_tasks"] == []


@pytest.mark.parametrize(
    ("bad", "field", "code"),
    [
        ({"priority": 1.5}, "priority", "invalid"),
        ({"timeout": 5}, "timeout", "invalid"),
        ({"queue": ""}, "queue", "invalid"),
        ({"queue": "a\n"}, "queue", "invalid"),
        ({"current_state": "s" * 241}, "current_state", "invalid"),
        ({"delay": 1, "run_at": "2030-01-01T00:00:00Z"}, "run_at", "invalid"),
        ({"run_at": "2030-01-01T00:00:00"}, "run_at", "invalid"),
        ({"work_timeout": 0.1234567}, "work_timeout", "invalid"),
        ({"metadata": []}, "metadata", "invalid"),
        ({"payload": 1, "payload_base64": ""}, "payload_base64", "invalid"),
        ({"payload": 1, "content_type": "text"}, "content_type", "invalid"),
        ({"content_type": "text/plain"}, "content_type", "invalid"),
        ({"metadata": {"a": "x" * 16384}}, "metadata", "too_large"),
        ({"unknown": 1}, "unknown", "unknown_field"),
        ({"delivery": 1}, "delivery", "unknown_field"),
        ({"idempotency_key": "k"}, "idempotency_key", "unknown_field"),
    ],
)
async def test_a_bad_next_task_refuses_the_completion(api: Api, bad: Fields, field: str, code: str) -> None:
    held = await api.submit_held()
    good = {"queue": api.queue}
    status = 413 if code == "too_large" else 400

    one = await api.try_complete(held["id"], delivery=1, result=1, next_task=good | bad)
    several = await api.try_complete(held["id"], delivery=1, result=1, next_tasks=[good, good | bad, good])

    await api.refuses_to_change(held, one, status, code, f"next_task.{field}")
    await api.refuses_to_change(held, several, status, code, f"next_tasks[1].{field}")
    assert (await api.client.get(f"/v1/tasks/{held['id']}/result")).status_code == 404


async def test_a_clock_of_a_next_task_without_target_names_work_timeout(api: Api) -> None:
    held = await api.submit_held()

    problem = refused(
        await api.try_complete(held["id"], delivery=1, next_task={"timeout": 1}), 400, "invalid", "next_task.timeout"
    )

    assert "work_timeout" in problem["detail"]


REFUSED_HELD = [
    ({}, 400, "invalid", "current_state"),
    ({"current_state": None, "delivery": None}, 400, "invalid", "current_state"),
    ({"current_state": "submitted-working"}, 409, "held", None),
    ({"delivery": 2}, 409, "stale_delivery", None),
    ({"delivery": 1, "current_state": "submitted"}, 409, "state_mismatch", None),
    ({"delivery": 1, "queue": "elsewhere"}, 409, "queue_mismatch", None),
    ({"delivery": 1, "next_task": {}, "next_tasks": []}, 400, "invalid", "next_tasks"),
    ({"delivery": 1, "next_task": []}, 400, "invalid", "next_task"),
    ({"delivery": 1, "next_tasks": {}}, 400, "invalid", "next_tasks"),
    ({"delivery": 1, "next_tasks": [None]}, 400, "invalid", "next_tasks[0]"),
    ({"delivery": 1, "next_tasks": [{}] * 1001}, 400, "invalid", "next_tasks"),
    ({"delivery": 1, "result": 1, "result_base64": "AA=="}, 400, "invalid", "result_base64"),
    ({"delivery": 1, "result_content_type": "text/plain"}, 400, "invalid", "result_content_type"),
    ({"delivery": 1, "result_base64": "A"}, 400, "invalid", "result_base64"),
    ({"delivery": 1, "result_base64": "é"}, 400, "invalid", "result_base64"),
    ({"delivery": 1, "result_base64": None}, 400, "invalid", "result_base64"),
    ({"delivery": 1, "result": 1, "result_content_type": "a/b\n"}, 400, "invalid", "result_content_type"),
    ({"delivery": 1, "priority": 1}, 400, "unknown_field", "priority"),
]


@pytest.mark.parametrize(("fields", "status", "code", "field"), REFUSED_HELD)
async def test_a_held_task_refuses(api: Api, fields: Fields, status: int, code: str, field: str | None) -> None:
    held = await api.submit_held(payload={"kept": True})

    await api.refuses_to_change(held, await api.try_complete(held["id"], **fields), status, code, field)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"delivery": 1}, "stale_delivery"),
        ({"current_state": "other"}, "state_mismatch"),
        ({"current_state": "submitted", "queue": "elsewhere"}, "queue_mismatch"),
    ],
)
async def test_an_unheld_task_refuses(api: Api, fields: Fields, code: str) -> None:
    task = await api.submit()

    await api.refuses_to_change(task, await api.try_complete(task["id"], **fields), 409, code)


async def test_a_refused_completion_submits_nothing_and_stores_no_result(api: Api) -> None:
    held = await api.submit_held()

    refusal = await api.try_complete(held["id"], delivery=5, result=1, next_task={"queue": api.queue})

    await api.refuses_to_change(held, refusal, 409, "stale_delivery")
    assert (await api.client.get(f"/v1/tasks/{held['id']}/result")).status_code == 404


@pytest.mark.parametrize("match", [{"delivery": 1}, {"current_state": "submitted"}], ids=["held", "unheld"])
async def test_a_repeat_is_replayed_and_another_request_is_refused(api: Api, match: Fields) -> None:
    task = await (api.submit_held() if "delivery" in match else api.submit())
    request = match | {"result": {"y": 2}, "next_tasks": [{"queue": api.queue, "payload": 1}, {"queue": api.queue}]}
    first = await api.complete(task["id"], **request)

    replay = await api.complete(task["id"], **request)

    assert replay == first | {"replayed": True}
    assert len(first["next_tasks"]) == 2
    assert len(await api.list()) == 2
    for other in (
        request | {"result": {"y": 3}},
        request | {"result": None},
        request | {"next_tasks": request["next_tasks"][:1]},
        match,
        request | {"queue": api.queue},
    ):
        refused(await api.try_complete(task["id"], **other), 409, "other_request")
    assert len(await api.list()) == 2
    assert (await api.get(task["id"], include="result"))["result"] == {"y": 2}


async def test_other_verbs_after_a_completion_are_refused(api: Api) -> None:
    held = await api.submit_held()
    ended = (await api.complete(held["id"], delivery=1))["task"]

    await api.refuses_to_change(
        ended, await api.try_update(held["id"], delivery=1, new_state="n"), 409, "other_request"
    )
    await api.refuses_to_change(ended, await api.try_release(held["id"], delivery=1), 409, "other_request")
    await api.refuses_to_change(ended, await api.try_cancel(held["id"]), 409, "ended")
    await api.refuses_to_change(ended, await api.try_complete(held["id"], delivery=2), 409, "ended")
    await api.refuses_to_change(ended, await api.try_complete(held["id"], current_state="submitted"), 409, "ended")
    await api.refuses_to_change(ended, await api.try_complete(held["id"], current_state="completed"), 409, "ended")


async def test_a_replay_of_an_earlier_delivery_tells_how_the_task_is_now(api: Api) -> None:
    held = await api.submit_held()
    await api.release(held["id"], delivery=1)
    await api.claim()
    ended = (await api.complete(held["id"], delivery=2))["task"]

    replay = await api.release(held["id"], delivery=1)

    assert replay == {"task": ended, "replayed": True}


async def test_an_empty_body_is_refused(api: Api) -> None:
    held = await api.submit_held()

    refusal = await api.send("POST", f"/v1/tasks/{held['id']}/complete", b"")

    await api.refuses_to_change(held, refusal, 400, "malformed_body")


async def test_an_unknown_task_is_not_found_and_its_next_tasks_are_not_made(api: Api) -> None:
    refusal = await api.try_complete(unknown_id(), delivery=1, next_task={"queue": api.queue})

    await api.refuses(refusal, 404, "task_not_found")


async def test_a_thousand_next_tasks(api: Api) -> None:
    held = await api.submit_held()
    wanted: list[dict[str, Any]] = [{"queue": api.queue}] * 1000

    completed = await api.complete(held["id"], delivery=1, next_tasks=wanted)

    assert len(set(completed["next_tasks"])) == 1000
    assert await api.counts() == {"submitted": 1000}


async def test_the_answer_of_a_completion_holds_no_contents(api: Api) -> None:
    held = await api.submit_held(payload=1)

    answer = done(await api.try_complete(held["id"], delivery=1, result=2))

    assert not {"payload", "result", "content_type", "result_content_type"} & answer["task"].keys()
