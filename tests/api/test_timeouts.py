"""Time running out: design section 3, rows `time out` and `unpark`."""

import pytest

from tests.api.calls import FUTURE, Api, Fields, done, refused, seconds_between


async def test_a_timed_out_hold_swaps_and_the_pair_becomes_home(api: Api) -> None:
    await api.submit(current_state="a", auto_target_state="b")
    [held] = await api.claim(current_state="a", override_current_state="x", override_auto_target_state="y")

    assert await api.clean_up() == 1

    task = await api.get(held["id"])
    assert (task["phase"], task["current_state"], task["auto_target_state"]) == ("ready", "y", "x")
    assert (task["home_state"], task["home_target"]) == ("y", "x")
    assert (task["lost"], task["attempt"], task["delivery"]) == (1, 0, 1)
    assert (task["held_by"], task["claim_time"], task["timeout"], task["due_time"]) == (None, None, None, None)
    assert task["submit_time"] == held["submit_time"]
    assert await api.clean_up() == 0
    assert [again["delivery"] for again in await api.claim(current_state="y")] == [2]


async def test_a_timed_out_ready_task_swaps_and_is_not_lost(api: Api) -> None:
    task = await api.submit(current_state="a", auto_target_state="late", timeout=3600)

    assert await api.clean_up() == 1

    late = await api.get(task["id"])
    assert (late["phase"], late["current_state"], late["auto_target_state"]) == ("ready", "late", "a")
    assert (late["home_state"], late["home_target"], late["lost"]) == ("late", "a", 0)
    assert (late["timeout"], late["due_time"]) == (None, None)


async def test_nothing_times_out_before_its_time(api: Api) -> None:
    held = await api.submit_held(work_timeout=3600)

    assert await api.clean_up(None) == 0
    assert await api.clean_up("2000-01-01T00:00:00Z") == 0
    assert await api.clean_up(held["claim_time"]) == 0
    assert (await api.get(held["id"]))["phase"] == "held"

    assert await api.clean_up(held["due_time"]) == 1


async def test_at_time_is_inclusive_and_may_have_any_offset(api: Api) -> None:
    held = await api.submit_held(work_timeout=86400)
    just_before = held["due_time"][:-1].replace(held["due_time"][20:26], f"{int(held['due_time'][20:26]) - 1:06}")
    assert seconds_between(f"{just_before}Z", held["due_time"]) == pytest.approx(0.000001)

    assert await api.clean_up(f"{just_before}+00:00") == 0
    assert await api.clean_up(f"{held['due_time'][:-1]}-00:00") == 1


async def test_parked_tasks_and_tasks_without_clock_stay(api: Api) -> None:
    await api.submit(delay=3600, auto_target_state="t", timeout=1)
    await api.submit()
    await api.submit_held(current_state="s", work_timeout=0)

    assert await api.clean_up() == 0


async def test_a_cleanup_of_one_queue_leaves_the_others(api: Api) -> None:
    here = await api.submit_held()
    there = await api.submit(queue=f"{api.queue}-there", auto_target_state="t", timeout=60)

    assert await api.clean_up() == 1

    assert (await api.get(here["id"]))["phase"] == "ready"
    assert (await api.get(there["id"]))["due_time"] == there["due_time"]
    other = await api.post("/v1/cleanup-timed-out", at_time=FUTURE, queue=f"{api.queue}-there")
    assert done(other) == {"timed_out": 1}


@pytest.mark.parametrize("body", [b"", b"{}", b'{"at_time": null, "queue": null}'])
async def test_a_cleanup_needs_no_body(api: Api, body: bytes) -> None:
    held = await api.submit_held(work_timeout=0.000001)

    answer = done(await api.send("POST", "/v1/cleanup-timed-out", body))

    assert answer["timed_out"] >= 1
    assert (await api.get(held["id"]))["phase"] == "ready"


async def test_a_hold_whose_clock_ran_out_is_a_hold_until_a_sweep_ends_it(api: Api) -> None:
    held = await api.submit_held(work_timeout=0.000001)

    assert await api.claim() == []
    await api.update(held["id"], delivery=1)
    assert (await api.complete(held["id"], delivery=1))["task"]["phase"] == "completed"


async def test_a_task_lost_too_often_ends_as_failed(api: Api) -> None:
    task = await api.submit(max_lost=2, payload="kept")
    for delivery in (1, 2):
        [held] = await api.claim()
        assert (held["delivery"], held["lost"]) == (delivery, delivery - 1)
        assert await api.clean_up() == 1

    ended = await api.get(task["id"], include="payload")

    assert (ended["phase"], ended["current_state"], ended["auto_target_state"]) == ("failed",) * 3
    assert (ended["lost"], ended["delivery"], ended["payload"]) == (2, 2, "kept")
    assert await api.list() == []
    bare = {name: value for name, value in ended.items() if name not in {"payload", "content_type"}}
    assert await api.list(archived=True, phase="failed") == [bare]
    refused(await api.try_complete(task["id"], delivery=2), 409, "ended")
    refused(await api.try_cancel(task["id"]), 409, "ended")


async def test_a_task_that_timed_out_keeps_its_place(api: Api) -> None:
    first, second = await api.submit(), await api.submit()
    await api.claim()
    await api.clean_up()

    assert [task["id"] for task in await api.claim(count=2)] == [first["id"], second["id"]]


async def test_more_tasks_than_a_batch_time_out_at_once(api: Api) -> None:
    held = await api.submit_held(current_state="s")
    await api.complete(held["id"], delivery=1, next_tasks=[{"queue": api.queue}] * 1000)
    held = await api.submit_held(current_state="s")
    await api.complete(held["id"], delivery=1, next_tasks=[{"queue": api.queue}] * 200)
    assert sum([len(await api.claim(count=600)) for _ in range(2)]) == 1200

    assert await api.clean_up() == 1200

    assert await api.counts() == {"submitted": 1200}


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"at_time": "2030-01-01"}, "invalid", "at_time"),
        ({"at_time": "2030-01-01T00:00:00"}, "invalid", "at_time"),
        ({"at_time": 1893456000}, "invalid", "at_time"),
        ({"at_time": ""}, "invalid", "at_time"),
        ({"at_time": "now"}, "invalid", "at_time"),
        ({"at_time": "0001-01-01T00:00:00+00:01"}, "invalid", "at_time"),
        ({"at_time": "9999-12-31T23:59:59-00:01"}, "invalid", "at_time"),
        ({"at_time": "2016-12-31T23:59:60Z"}, "invalid", "at_time"),
        ({"queue": ""}, "invalid", "queue"),
        ({"queue": "a\u0000"}, "invalid", "queue"),
        ({"queue": "q" * 256}, "invalid", "queue"),
        ({"dry_run": True}, "unknown_field", "dry_run"),
    ],
)
async def test_a_bad_cleanup_is_refused(api: Api, body: Fields, code: str, field: str) -> None:
    held = await api.submit_held(work_timeout=0.000001)

    refusal = await api.post("/v1/cleanup-timed-out", **body)

    await api.refuses_to_change(held, refusal, 400, code, field)


@pytest.mark.parametrize("at_time", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00-23:59"])
async def test_the_earliest_times_end_nothing(api: Api, at_time: str) -> None:
    await api.submit_held()

    assert await api.clean_up(at_time) == 0


@pytest.mark.parametrize("at_time", ["9999-12-31T23:59:59.999998Z", "9999-12-31T23:59:59+23:59"])
async def test_the_latest_times_end_everything(api: Api, at_time: str) -> None:
    await api.submit_held(work_timeout=315360000)

    assert await api.clean_up(at_time) == 1


# Unparking --------------------------------------------------------------------


async def test_a_delayed_task_is_parked_and_comes_by_itself(api: Api) -> None:
    parked = await api.submit(delay=0.4, current_state="a", auto_target_state="b", timeout=60, priority=2)

    assert (parked["phase"], parked["current_state"], parked["auto_target_state"]) == ("parked", "a-scheduled", "a")
    assert (parked["home_state"], parked["home_target"], parked["timeout"]) == ("a", "b", 60.0)
    assert seconds_between(parked["submit_time"], parked["due_time"]) == pytest.approx(0.4, abs=1e-7)
    assert await api.counts() == {"a-scheduled": 1}
    assert await api.clean_up() == 0
    assert (await api.get(parked["id"]))["phase"] == "parked"

    ready = await api.until_ready(parked["id"])

    assert (ready["phase"], ready["current_state"], ready["auto_target_state"]) == ("ready", "a", "b")
    assert ready["update_time"] >= parked["due_time"]
    assert (ready["timeout"], ready["priority"], ready["delivery"]) == (60.0, 2, 0)
    assert seconds_between(ready["update_time"], ready["due_time"]) == 60
    assert ready["submit_time"] == parked["submit_time"]


async def test_run_at_is_honoured(api: Api) -> None:
    parked = await api.submit(run_at="2099-12-31T23:59:59.5+05:30")

    assert (parked["phase"], parked["due_time"]) == ("parked", "2099-12-31T18:29:59.500000Z")


@pytest.mark.parametrize("run_at", ["0001-01-01T00:00:00Z", "2000-01-01T00:00:00-12:00"])
async def test_a_past_run_at_is_ready(api: Api, run_at: str) -> None:
    task = await api.submit(run_at=run_at)

    assert (task["phase"], task["current_state"], task["due_time"]) == ("ready", "submitted", None)


async def test_the_latest_run_at(api: Api) -> None:
    task = await api.submit(run_at="9999-12-31T23:59:59.999998Z")

    assert (task["phase"], task["due_time"]) == ("parked", "9999-12-31T23:59:59.999998Z")
    assert await api.get(task["id"]) == task
    assert (await api.cancel(task["id"]))["task"]["phase"] == "canceled"


@pytest.mark.parametrize(
    "run_at",
    [
        "2030-01-01T00:00:00",
        "2030-01-01",
        "2030-01-01T00:00Z",
        "2030-13-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "2030-01-01T24:00:00Z",
        "2016-12-31T23:59:60Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:59.999999Z",  # which the driver takes for infinity
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "2030-01-01T00:00:00+25:00",
        "1893456000",
        "tomorrow",
        "",
        "2030-01-01T00:00:00Z\u0000",
        "2030-01-01T00:00:00Z ",
        "\uff12030-01-01T00:00:00Z",
    ],
)
async def test_a_bad_run_at_is_refused(api: Api, run_at: str) -> None:
    await api.refuses(await api.try_submit(run_at=run_at), 400, "invalid", "run_at")


@pytest.mark.parametrize("delay", [0, 5])
async def test_delay_and_run_at_together_are_refused(api: Api, delay: float) -> None:
    refusal = await api.try_submit(delay=delay, run_at="2000-01-01T00:00:00Z")

    await api.refuses(refusal, 400, "invalid", "run_at")
