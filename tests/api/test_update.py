"""Updating: design section 3, row `update`, and matching."""

from typing import Any

import pytest

from tests.api.calls import Api, refused, seconds_between, unknown_id


async def test_a_new_state_ends_the_hold_and_is_home(api: Api) -> None:
    held = await api.submit_held(kind="k", priority=3, max_lost=5)

    moved = await api.update(held["id"], delivery=1, new_state="next")

    task = moved["task"]
    assert moved["replayed"] is False
    assert (task["phase"], task["current_state"], task["auto_target_state"]) == ("ready", "next", "next-working")
    assert (task["home_state"], task["home_target"]) == ("next", "next-working")
    assert (task["held_by"], task["claim_time"], task["timeout"], task["due_time"]) == (None, None, None, None)
    assert (task["priority"], task["delivery"], task["kind"]) == (0, 1, "k")
    assert task["submit_time"] == held["submit_time"]
    assert await api.get(held["id"]) == task
    assert [task["id"] for task in await api.claim(current_state="next")] == [held["id"]]


async def test_a_new_state_resets_lost_and_a_progress_write_does_not(api: Api) -> None:
    task = await api.submit_held(auto_target_state="again")
    await api.clean_up()
    [held] = await api.claim(current_state="submitted")
    assert held["lost"] == 1

    progress = await api.update(task["id"], delivery=2)
    moved = await api.update(task["id"], delivery=2, new_state="other")

    assert (progress["task"]["lost"], moved["task"]["lost"]) == (1, 0)


async def test_a_new_state_takes_its_target_and_clock(api: Api) -> None:
    held = await api.submit_held()

    task = (await api.update(held["id"], delivery=1, new_state="n", auto_target_state="m", timeout=9.5, priority=-2))[
        "task"
    ]

    assert (task["current_state"], task["auto_target_state"], task["home_target"]) == ("n", "m", "m")
    assert (task["timeout"], task["priority"]) == (9.5, -2)
    assert seconds_between(task["update_time"], task["due_time"]) == 9.5


@pytest.mark.parametrize("state", [{}, {"new_state": None}, {"new_state": "submitted-working"}])
async def test_a_progress_write_keeps_the_hold(api: Api, state: dict[str, Any]) -> None:
    held = await api.submit_held(work_timeout=60, priority=5, payload="p")

    progress = (await api.update(held["id"], delivery=1, **state))["task"]

    changed = {name for name, value in progress.items() if held[name] != value}
    assert changed == {"update_time", "priority"}
    assert progress["priority"] == 0
    assert (await api.complete(held["id"], delivery=1))["task"]["phase"] == "completed"


async def test_a_progress_write_sets_what_is_given(api: Api) -> None:
    held = await api.submit_held(work_timeout=60)

    progress = (await api.update(held["id"], delivery=1, auto_target_state="fallen", timeout=600, priority=4))["task"]

    assert (progress["auto_target_state"], progress["timeout"], progress["priority"]) == ("fallen", 600.0, 4)
    assert seconds_between(progress["update_time"], progress["due_time"]) == 600
    assert progress["claim_time"] == held["claim_time"]
    assert (progress["home_state"], progress["home_target"]) == ("submitted", "submitted-working")


async def test_a_progress_write_with_a_timeout_of_zero_stops_the_clock(api: Api) -> None:
    held = await api.submit_held()

    progress = (await api.update(held["id"], delivery=1, timeout=0))["task"]

    assert (progress["phase"], progress["timeout"], progress["due_time"]) == ("held", None, None)
    assert await api.clean_up() == 0


async def test_an_unheld_task_is_matched_by_its_state(api: Api) -> None:
    task = await api.submit(auto_target_state="late", timeout=60)

    progress = (await api.update(task["id"], current_state="submitted", auto_target_state="later"))["task"]
    moved = (await api.update(task["id"], current_state="submitted", queue=api.queue, new_state="n"))["task"]

    assert (progress["auto_target_state"], progress["home_target"]) == ("later", "later")
    assert (progress["timeout"], progress["due_time"]) == (60.0, task["due_time"])
    assert (moved["current_state"], moved["timeout"]) == ("n", None)


async def test_a_new_state_makes_a_parked_task_ready_now(api: Api) -> None:
    task = await api.submit(delay=3600, auto_target_state="t", timeout=60)

    moved = (await api.update(task["id"], current_state="submitted-scheduled", new_state="submitted"))["task"]

    assert (moved["phase"], moved["current_state"], moved["auto_target_state"]) == (
        "ready",
        "submitted",
        "submitted-working",
    )
    assert (moved["timeout"], moved["due_time"]) == (None, None)
    assert len(await api.claim()) == 1


async def test_a_progress_write_keeps_a_parked_tasks_release_time(api: Api) -> None:
    task = await api.submit(delay=3600)

    progress = (
        await api.update(task["id"], current_state="submitted-scheduled", auto_target_state="t", timeout=60, priority=9)
    )["task"]

    assert (progress["phase"], progress["due_time"]) == ("parked", task["due_time"])
    assert (progress["current_state"], progress["auto_target_state"]) == ("submitted-scheduled", "submitted")
    assert (progress["home_state"], progress["home_target"]) == ("submitted", "t")
    assert (progress["timeout"], progress["priority"]) == (60.0, 9)


async def test_a_clock_for_a_new_state_needs_a_target_and_work_timeout_is_named(api: Api) -> None:
    held = await api.submit_held()

    refusal = await api.try_update(held["id"], delivery=1, new_state="n", timeout=5)

    problem = await api.refuses_to_change(held, refusal, 400, "invalid", "timeout")
    assert "work_timeout" in problem["detail"]


async def test_a_clock_for_the_present_state_needs_no_target(api: Api) -> None:
    held = await api.submit_held()

    progress = (await api.update(held["id"], delivery=1, new_state=held["current_state"], timeout=5))["task"]

    assert (progress["phase"], progress["timeout"]) == ("held", 5.0)


async def test_a_repeated_move_is_replayed_with_the_task_as_it_is_now(api: Api) -> None:
    held = await api.submit_held()
    request = {"delivery": 1, "new_state": "n", "priority": 3, "payload": {"k": "v"}}
    await api.update(held["id"], **request)
    [now] = await api.claim(current_state="n")

    replay = await api.update(held["id"], **request)

    assert replay["replayed"] is True
    assert replay["task"].items() <= now.items()
    await api.refuses_to_change(
        now, await api.try_update(held["id"], **request | {"priority": 4}), 409, "other_request"
    )
    await api.refuses_to_change(now, await api.try_update(held["id"], delivery=1, new_state="m"), 409, "other_request")
    await api.refuses_to_change(now, await api.try_complete(held["id"], delivery=1), 409, "other_request")
    await api.refuses_to_change(now, await api.try_release(held["id"], delivery=1), 409, "other_request")


REFUSED_HELD = [
    ({"new_state": "n"}, 400, "invalid", "current_state"),
    ({"queue": "any", "new_state": "n"}, 400, "invalid", "current_state"),
    ({"current_state": "submitted-working", "new_state": "n"}, 409, "held", None),
    ({"delivery": 2, "new_state": "n"}, 409, "stale_delivery", None),
    ({"delivery": 2**63 - 1, "new_state": "n"}, 409, "stale_delivery", None),
    ({"delivery": 1, "current_state": "submitted", "new_state": "n"}, 409, "state_mismatch", None),
    ({"delivery": 1, "queue": "elsewhere", "new_state": "n"}, 409, "queue_mismatch", None),
    ({"delivery": 1, "new_state": "s" * 241}, 400, "invalid", "new_state"),
    ({"delivery": 1, "new_state": ""}, 400, "invalid", "new_state"),
    ({"delivery": 1, "new_state": "a\n"}, 400, "invalid", "new_state"),
    ({"delivery": 1, "auto_target_state": "a\u0000"}, 400, "invalid", "auto_target_state"),
    ({"delivery": 1, "priority": 2**31}, 400, "invalid", "priority"),
    ({"delivery": 1, "priority": None}, 400, "invalid", "priority"),
    ({"delivery": 1, "timeout": -1}, 400, "invalid", "timeout"),
    ({"delivery": 1, "payload": 1, "payload_base64": ""}, 400, "invalid", "payload_base64"),
    ({"delivery": 1, "content_type": "text/plain"}, 400, "invalid", "content_type"),
    ({"delivery": 0}, 400, "invalid", "delivery"),
    ({"delivery": -1}, 400, "invalid", "delivery"),
    ({"delivery": 2**63}, 400, "invalid", "delivery"),
    ({"delivery": "1"}, 400, "invalid", "delivery"),
    ({"delivery": 1.5}, 400, "invalid", "delivery"),
    ({"delivery": 1, "work_timeout": 5}, 400, "unknown_field", "work_timeout"),
    ({"delivery": 1, "id": "x"}, 400, "unknown_field", "id"),
]


@pytest.mark.parametrize(("fields", "status", "code", "field"), REFUSED_HELD)
async def test_a_held_task_refuses(api: Api, fields: dict[str, Any], status: int, code: str, field: str | None) -> None:
    held = await api.submit_held(payload={"kept": True})

    await api.refuses_to_change(held, await api.try_update(held["id"], **fields), status, code, field)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"delivery": 1, "new_state": "n"}, "stale_delivery"),
        ({"delivery": 1, "current_state": "submitted", "new_state": "n"}, "stale_delivery"),
        ({"current_state": "other", "new_state": "n"}, "state_mismatch"),
        ({"current_state": "submitted", "queue": "elsewhere", "new_state": "n"}, "queue_mismatch"),
    ],
)
@pytest.mark.parametrize("parked", [False, True])
async def test_an_unheld_task_refuses(api: Api, fields: dict[str, Any], code: str, *, parked: bool) -> None:
    task = await api.submit(**({"delay": 3600} if parked else {}), payload=[1])
    if parked and fields.get("current_state") == "submitted":
        fields = fields | {"current_state": "submitted-scheduled"}

    await api.refuses_to_change(task, await api.try_update(task["id"], **fields), 409, code)


@pytest.mark.parametrize("end", ["complete", "cancel"])
async def test_an_ended_task_refuses(api: Api, end: str) -> None:
    held = await api.submit_held()
    ended = (await getattr(api, end)(held["id"], delivery=1))["task"]

    for match in ({"delivery": 1}, {"current_state": ended["current_state"]}):
        refusal = await api.try_update(held["id"], new_state="n", **match)
        code = "other_request" if end == "complete" and "delivery" in match else "ended"
        await api.refuses_to_change(ended, refusal, 409, code)


async def test_an_unknown_task_is_not_found(api: Api) -> None:
    refused(await api.try_update(unknown_id(), delivery=1), 404, "task_not_found")
