"""Giving back and calling off: design section 3, rows `release` and `cancel`."""

import pytest

from tests.api.calls import Api, Fields, refused, seconds_between, unknown_id

# Release ----------------------------------------------------------------------


@pytest.mark.parametrize("delay", [{}, {"delay": None}, {"delay": 0}])
async def test_a_release_leads_home_and_uses_no_attempt(api: Api, delay: Fields) -> None:
    await api.submit(current_state="a", auto_target_state="b", priority=4, work_timeout=9)
    [held] = await api.claim(current_state="a", override_current_state="x", override_auto_target_state="y")

    released = await api.release(held["id"], delivery=1, **delay)

    task = released["task"]
    assert released["replayed"] is False
    assert (task["phase"], task["current_state"], task["auto_target_state"]) == ("ready", "a", "b")
    assert (task["attempt"], task["lost"], task["delivery"], task["priority"]) == (0, 0, 1, 4)
    assert (task["held_by"], task["claim_time"], task["timeout"], task["due_time"]) == (None, None, None, None)
    assert task["submit_time"] == held["submit_time"]
    assert await api.get(held["id"]) == task
    assert [again["delivery"] for again in await api.claim(current_state="a")] == [2]


async def test_a_release_leaves_the_clock_of_the_unclaimed_task_empty(api: Api) -> None:
    await api.submit(auto_target_state="late", timeout=60)
    [held] = await api.claim()

    task = (await api.release(held["id"], delivery=1))["task"]

    assert (task["timeout"], task["due_time"]) == (None, None)


async def test_a_release_with_a_delay_parks_and_comes_back_not_before_its_time(api: Api) -> None:
    held = await api.submit_held(current_state="a", auto_target_state="b")

    parked = (await api.release(held["id"], delivery=1, delay=0.3))["task"]

    assert (parked["phase"], parked["current_state"], parked["auto_target_state"]) == ("parked", "a-scheduled", "a")
    assert (parked["home_state"], parked["home_target"]) == ("a", "b")
    assert seconds_between(parked["update_time"], parked["due_time"]) == pytest.approx(0.3, abs=1e-7)
    ready = await api.until_ready(held["id"])
    assert (ready["phase"], ready["current_state"], ready["auto_target_state"]) == ("ready", "a", "b")
    assert ready["due_time"] is None
    assert ready["update_time"] >= parked["due_time"]


async def test_a_released_task_keeps_its_place(api: Api) -> None:
    first, second = await api.submit(), await api.submit()
    await api.claim()
    await api.release(first["id"], delivery=1)

    assert [task["id"] for task in await api.claim(count=2)] == [first["id"], second["id"]]


async def test_a_repeated_release_is_replayed(api: Api) -> None:
    held = await api.submit_held()
    await api.release(held["id"], delivery=1)
    [now] = await api.claim()

    replay = await api.release(held["id"], delivery=1)

    assert replay["replayed"] is True
    assert replay["task"].items() <= now.items()
    await api.refuses_to_change(now, await api.try_release(held["id"], delivery=1, delay=5), 409, "other_request")


REFUSED = [
    ({}, 400, "invalid", "delivery"),
    ({"delivery": None}, 400, "invalid", "delivery"),
    ({"current_state": "submitted-working"}, 400, "invalid", "delivery"),
    ({"delivery": 2}, 409, "stale_delivery", None),
    ({"delivery": 1, "current_state": "submitted"}, 409, "state_mismatch", None),
    ({"delivery": 1, "queue": "elsewhere"}, 409, "queue_mismatch", None),
    ({"delivery": 1, "delay": -1}, 400, "invalid", "delay"),
    ({"delivery": 1, "delay": 0.0000001}, 400, "invalid", "delay"),
    ({"delivery": 1, "delay": 315360000.1}, 400, "invalid", "delay"),
    ({"delivery": 1, "run_at": "2030-01-01T00:00:00Z"}, 400, "unknown_field", "run_at"),
]


@pytest.mark.parametrize(("fields", "status", "code", "field"), REFUSED)
async def test_a_held_task_refuses_a_bad_release(
    api: Api, fields: Fields, status: int, code: str, field: str | None
) -> None:
    held = await api.submit_held()

    await api.refuses_to_change(held, await api.try_release(held["id"], **fields), status, code, field)


@pytest.mark.parametrize("fields", [{}, {"delay": 3600}], ids=["ready", "parked"])
async def test_a_task_that_is_not_held_cant_be_released(api: Api, fields: Fields) -> None:
    task = await api.submit(**fields)

    await api.refuses_to_change(task, await api.try_release(task["id"], delivery=1), 409, "stale_delivery")


async def test_a_timed_out_delivery_cant_be_released(api: Api) -> None:
    held = await api.submit_held()
    await api.clean_up()

    refused(await api.try_release(held["id"], delivery=1), 409, "stale_delivery")


# Cancel -----------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["ready", "held", "parked"])
@pytest.mark.parametrize("body", [None, {}], ids=["no body", "empty object"])
async def test_a_cancel_ends_any_live_task(api: Api, phase: str, body: Fields | None) -> None:
    task = await (api.submit_held() if phase == "held" else api.submit(delay=3600 if phase == "parked" else 0))
    assert task["phase"] == phase

    path = f"/v1/tasks/{task['id']}/cancel"
    response = await (api.client.post(path) if body is None else api.client.post(path, json=body))

    answer = response.json()
    canceled = answer["task"]
    assert (response.status_code, answer["replayed"]) == (200, False)
    assert (canceled["phase"], canceled["current_state"], canceled["auto_target_state"]) == ("canceled",) * 3
    assert (canceled["timeout"], canceled["due_time"]) == (None, None)
    kept = ("home_state", "home_target", "delivery", "held_by", "claim_time")
    assert {name: canceled[name] for name in kept} == {name: task[name] for name in kept}
    assert await api.list() == []
    assert await api.list(archived=True, phase="canceled") == [canceled]


async def test_a_cancel_with_matching_fields(api: Api) -> None:
    held = await api.submit_held()

    canceled = await api.cancel(held["id"], queue=api.queue, current_state="submitted-working", delivery=1)

    assert canceled["task"]["phase"] == "canceled"


async def test_a_holder_learns_of_a_cancel_at_its_next_write(api: Api) -> None:
    held = await api.submit_held()
    canceled = (await api.cancel(held["id"]))["task"]

    for refusal in (
        await api.try_update(held["id"], delivery=1),
        await api.try_update(held["id"], delivery=1, new_state="n"),
        await api.try_complete(held["id"], delivery=1),
        await api.try_release(held["id"], delivery=1),
    ):
        await api.refuses_to_change(canceled, refusal, 409, "ended")


async def test_a_repeated_cancel_is_replayed(api: Api) -> None:
    task = await api.submit()
    canceled = (await api.cancel(task["id"], current_state="submitted"))["task"]

    for fields in ({"current_state": "submitted"}, {}, {"queue": api.queue}):
        assert await api.cancel(task["id"], **fields) == {"task": canceled, "replayed": True}
    refusal = await api.try_cancel(task["id"], queue="elsewhere")
    await api.refuses_to_change(canceled, refusal, 409, "queue_mismatch")


@pytest.mark.parametrize(
    ("fields", "status", "code", "field"),
    [
        ({"queue": "elsewhere"}, 409, "queue_mismatch", None),
        ({"current_state": "submitted"}, 409, "state_mismatch", None),
        ({"delivery": 2}, 409, "stale_delivery", None),
        ({"delivery": 0}, 400, "invalid", "delivery"),
        ({"reason": "x"}, 400, "unknown_field", "reason"),
        ({"queue": ""}, 400, "invalid", "queue"),
        ({"queue": "q" * 256}, 400, "invalid", "queue"),
        ({"current_state": "a\u0000"}, 400, "invalid", "current_state"),
    ],
)
async def test_a_held_task_refuses_a_bad_cancel(
    api: Api, fields: Fields, status: int, code: str, field: str | None
) -> None:
    held = await api.submit_held()

    await api.refuses_to_change(held, await api.try_cancel(held["id"], **fields), status, code, field)


async def test_a_delivery_never_matches_an_unheld_task(api: Api) -> None:
    task = await api.submit()
    held = await api.submit_held(current_state="other")
    released = (await api.release(held["id"], delivery=1))["task"]

    refused(await api.try_cancel(task["id"], delivery=1), 409, "stale_delivery")
    refused(await api.try_cancel(released["id"], delivery=1), 409, "stale_delivery")
    assert len(await api.list()) == 2


async def test_a_completed_task_cant_be_canceled(api: Api) -> None:
    task = await api.submit()
    ended = (await api.complete(task["id"], current_state="submitted"))["task"]

    await api.refuses_to_change(ended, await api.try_cancel(task["id"]), 409, "ended")


async def test_unknown_tasks_are_not_found(api: Api) -> None:
    refused(await api.try_cancel(unknown_id()), 404, "task_not_found")
    refused(await api.try_release(unknown_id(), delivery=1), 404, "task_not_found")
