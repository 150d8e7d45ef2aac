"""Revival: ended tasks live again, and with them what their ends have canceled."""

import asyncio
from functools import partial

import pytest

from tests.api.calls import Api, Fields, done, refused, unknown_id
from tests.api.test_jobs import phases, task


async def fail_for_good(api: Api, task_id: str) -> None:
    """Claim a task, which must be the first of the queue, and fail it."""
    [held] = await api.claim()
    assert held["id"] == task_id
    await api.fail(task_id, delivery=held["delivery"], retryable=False, error="broken")


@pytest.mark.parametrize("end", ["failed", "canceled", "canceled while held", "dead"])
async def test_an_ended_task_lives_again_as_it_was_at_home(api: Api, end: str) -> None:
    before = await api.submit(
        current_state="fresh", auto_target_state="going", priority=7, payload={"kept": [1]}, metadata={"m": 1},
        max_lost=1, max_attempts=2, backoff=0, work_timeout=60,
    )  # fmt: skip
    deliveries = 0
    if end != "canceled":
        await api.claim(current_state="fresh", override_current_state="odd", worker_id="w")
        deliveries = 1
    if end == "failed":
        await api.fail(before["id"], delivery=1)
        await api.claim(current_state="fresh", worker_id="w")
        deliveries = 2
        await api.fail(before["id"], delivery=2, error="broken")
    elif end == "dead":
        await api.clean_up()
    else:
        await api.cancel(before["id"])
    runs = await api.runs(before["id"])

    answer = await api.revive(before["id"])

    assert answer["replayed"] is False
    live = await api.get(before["id"], include="payload")
    changed = {"update_time": live["update_time"], "delivery": deliveries, "payload": {"kept": [1]}}
    assert live == before | changed | {"content_type": "application/json"}
    assert answer["task"] == {name: live[name] for name in answer["task"]}
    assert await api.counts() == {"fresh": 1}
    assert await api.list(archived=True) == []
    assert await api.runs(before["id"]) == runs
    assert [run["outcome"] for run in runs] == {
        "failed": ["failed", "failed"], "canceled": [], "canceled while held": ["canceled"], "dead": ["dead"],
    }[end]  # fmt: skip
    [held] = await api.claim(current_state="fresh")
    assert held["delivery"] == deliveries + 1
    for delivery in range(1, deliveries + 1):
        assert (await api.try_complete(before["id"], delivery=delivery)).status_code == 409
    await api.complete(before["id"], delivery=deliveries + 1)
    outcomes = [run["outcome"] for run in await api.runs(before["id"])]
    assert outcomes == [run["outcome"] for run in runs] + ["succeeded"]


async def test_a_live_task_is_answered_as_it_is(api: Api) -> None:
    held = await api.submit_held()
    assert await api.revive(held["id"]) == {"task": held, "replayed": True}


async def test_a_completed_task_stays_so(api: Api) -> None:
    held = await api.submit_held()
    await api.complete(held["id"], delivery=1)
    refused(await api.try_revive(held["id"]), 409, "ended")
    _, ids = await api.submit_job(task("a"), task("b", "a"))
    await api.complete(ids["a"], current_state="submitted")
    refused(await api.try_revive(ids["a"]), 409, "ended")
    refused(await api.try_revive(unknown_id()), 404, "task_not_found")


async def test_parallel_revivals_revive_once(api: Api) -> None:
    _, ids = await api.submit_job(task("a"), task("b", "a"))
    alone = await api.submit(current_state="alone")
    for task_id in (ids["a"], alone["id"]):
        for _ in range(5):
            await api.cancel(task_id)
            answers = await asyncio.gather(*(api.revive(task_id) for _ in range(20)))
            assert sorted(answer["replayed"] for answer in answers) == [False] + [True] * 19
    assert await api.counts() == {"submitted": 1, "submitted-blocked": 1, "alone": 1}


async def test_a_revival_brings_what_its_end_has_canceled(api: Api) -> None:
    job_id, ids = await api.submit_job(
        task("a"), task("other"), task("b", "a"), task("c", "b", "other"), task("d", "c"), task("one", "a"),
        task("beyond", "one"),
    )  # fmt: skip
    await api.cancel(ids["one"])
    await fail_for_good(api, ids["a"])
    assert phases(await api.job_tasks(job_id)) == {
        "a": "failed", "other": "ready", "b": "canceled", "c": "canceled", "d": "canceled", "one": "canceled",
        "beyond": "canceled",
    }  # fmt: skip
    refused(await api.try_revive(ids["c"]), 409, "parent_ended")
    refused(await api.try_revive(ids["b"]), 409, "parent_ended")
    # Its edge is done by the time that the child lives again.
    await api.complete(ids["other"], current_state="submitted")

    await api.revive(ids["a"])

    tasks = await api.job_tasks(job_id)
    assert phases(tasks) == {
        "a": "ready", "other": "completed", "b": "parked", "c": "parked", "d": "parked", "one": "canceled",
        "beyond": "canceled",
    }  # fmt: skip
    assert [tasks[name]["waiting_on"] for name in "bcd"] == [1, 1, 1]
    assert {(tasks[name]["canceled_by"], tasks[name]["last_error"]) for name in "bcd"} == {(None, None)}
    # What was canceled by itself, is revived by itself: its parent lives again.
    await api.revive(ids["one"])
    tasks = await api.job_tasks(job_id)
    assert (tasks["one"]["phase"], tasks["beyond"]["phase"]) == ("parked", "parked")
    done_names: list[str] = []
    while claimed := await api.claim(count=10):
        done_names += sorted(each["name"] for each in claimed)
        for each in claimed:
            await api.complete(each["id"], delivery=each["delivery"])
    assert done_names == ["a", "b", "one", "beyond", "c", "d"]
    assert await api.job_status(job_id) == "completed"


async def test_what_another_parent_still_stops_stays(api: Api) -> None:
    job_id, ids = await api.submit_job(
        task("a"), task("b"), task("only", "a"), task("both", "a", "b"), task("below", "both")
    )
    await fail_for_good(api, ids["a"])
    await api.cancel(ids["b"])

    await api.revive(ids["a"])
    assert phases(await api.job_tasks(job_id)) == {
        "a": "ready", "b": "canceled", "only": "parked", "both": "canceled", "below": "canceled",
    }  # fmt: skip
    refused(await api.try_revive(ids["both"]), 409, "parent_ended")

    await api.revive(ids["b"])
    tasks = await api.job_tasks(job_id)
    assert phases(tasks) == {"a": "ready", "b": "ready", "only": "parked", "both": "parked", "below": "parked"}
    assert tasks["both"]["waiting_on"] == 2


async def test_a_task_that_runs_all_the_same_is_revived_under_a_failed_parent(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a"), task("b"), task("c", "a", "b", on_parent_failure="run"))
    await fail_for_good(api, ids["a"])
    await api.cancel(ids["c"])

    revived = (await api.revive(ids["c"]))["task"]

    assert (revived["phase"], revived["waiting_on"]) == ("parked", 1)
    await api.cancel(ids["b"])
    assert phases(await api.job_tasks(job_id)) == {"a": "failed", "b": "canceled", "c": "ready"}


async def test_edges_to_children_that_are_still_blocked_open_again(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a"), task("b"), task("c", "a", "b", on_parent_failure="run"))
    await fail_for_good(api, ids["a"])
    assert (await api.get(ids["c"]))["waiting_on"] == 1

    await api.revive(ids["a"])

    child = (await api.job_tasks(job_id))["c"]
    assert (child["phase"], child["waiting_on"]) == ("parked", 2)
    assert [edge["done"] for edge in child["depends_on"]] == [False, False]
    await api.complete(ids["b"], current_state="submitted")
    await api.complete(ids["a"], current_state="submitted")
    assert (await api.get(ids["c"]))["phase"] == "ready"


@pytest.mark.parametrize("end", ["fail", "cancel"])
async def test_a_revived_child_waits_for_a_parent_that_lives_again(api: Api, end: str) -> None:
    """It ran after its parent had failed, and ended; since then the parent has been revived."""
    job_id, ids = await api.submit_job(task("a"), task("c", "a", on_parent_failure="run"))
    await fail_for_good(api, ids["a"])
    if end == "fail":
        await fail_for_good(api, ids["c"])
    else:
        await api.cancel(ids["c"])
    await api.revive(ids["a"])

    revived = (await api.revive(ids["c"]))["task"]

    assert (revived["phase"], revived["waiting_on"]) == ("parked", 1)
    assert (await api.job_tasks(job_id))["c"]["depends_on"] == [{"name": "a", "done": False}]
    [held] = await api.claim(count=10)
    await api.complete(held["id"], delivery=held["delivery"])
    assert held["name"] == "a"
    assert list(await api.claim_names()) == ["c"]


async def test_a_revived_task_is_ready_without_its_first_delay_unless_it_waits(api: Api) -> None:
    """A delay counts from the submit, or from the last parent's end: not from a revival."""
    _, ids = await api.submit_job(task("a"), task("b", "a", delay=3600), task("root", delay=3600))
    for name in ("root", "b", "a"):
        await api.cancel(ids[name])
    for name in ("root", "a"):
        assert (await api.revive(ids[name]))["task"]["phase"] == "ready"
    await api.revive(ids["b"])

    await api.complete(ids["a"], current_state="submitted")

    scheduled = await api.get(ids["b"])
    assert (scheduled["phase"], scheduled["current_state"]) == ("parked", "submitted-scheduled")


async def test_reviving_a_job_revives_all_but_what_was_canceled_one_by_one(api: Api) -> None:
    job_id, ids = await api.submit_job(
        task("bad"), task("below-bad", "bad"), task("one"), task("below-one", "one"), task("good"), task("held"),
        task("ready"), task("both", "bad", "one"),
    )  # fmt: skip
    held = await api.claim_names(count=4)
    await api.fail(ids["bad"], delivery=1, retryable=False)
    await api.cancel(ids["one"])
    await api.complete(ids["good"], delivery=1, result=1)
    assert held.keys() == {"bad", "one", "good", "held"}
    await api.cancel_job(job_id)
    assert await api.job_status(job_id) == "failed"

    answer = await api.revive_job(job_id)

    assert (answer["replayed"], answer["job"]["status"], answer["job"]["end_time"]) == (False, "running", None)
    tasks = await api.job_tasks(job_id)
    assert phases(tasks) == {
        "bad": "ready", "below-bad": "parked", "one": "canceled", "below-one": "canceled", "good": "completed",
        "held": "ready", "ready": "ready", "both": "canceled",
    }  # fmt: skip
    assert tasks["held"]["delivery"] == 1
    assert [run["outcome"] for run in await api.runs(ids["held"])] == ["canceled"]
    again = await api.revive_job(job_id)
    assert (again["replayed"], again["job"]) == (True, answer["job"])
    assert set(await api.claim_names()) == {"bad", "held", "ready"}


async def test_a_canceled_job_is_revived_whole(api: Api) -> None:
    """With its graph, and its tasks that run whatever became of their parents."""
    job_id, ids = await api.submit_job(
        task("a"), task("b", "a"), task("c", "b", on_parent_failure="run"), task("d", "b", "c"), name=api.queue
    )
    await api.complete(ids["a"], current_state="submitted")
    for _ in range(3):
        assert (await api.cancel_job(job_id))["job"]["status"] == "canceled"
        assert (await api.revive_job(job_id))["job"]["status"] == "running"
        tasks = await api.job_tasks(job_id)
        assert phases(tasks) == {"a": "completed", "b": "ready", "c": "parked", "d": "parked"}
        assert [tasks[name]["waiting_on"] for name in "abcd"] == [0, 0, 1, 2]
    for name in "bcd":
        await api.complete(ids[name], current_state="submitted")
    assert await api.job_status(job_id) == "completed"
    refused(await api.try_revive_job(job_id), 409, "ended")


async def test_a_task_of_a_canceled_job_is_revived_alone(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a"), task("b", "a"))
    await api.cancel_job(job_id)
    refused(await api.try_revive(ids["b"]), 409, "parent_ended")

    await api.revive(ids["a"])
    assert phases(await api.job_tasks(job_id)) == {"a": "ready", "b": "canceled"}
    assert (await api.revive(ids["b"]))["task"]["waiting_on"] == 1


async def test_revivals_of_many(api: Api) -> None:
    _, ids = await api.submit_job(task("a"), task("b", "a"))
    await fail_for_good(api, ids["a"])
    completed = await api.submit_held(current_state="other")
    await api.complete(completed["id"], delivery=1)
    unknown = unknown_id()
    wanted = [ids["b"], unknown, ids["a"], ids["b"], completed["id"]]

    dry = done(await api.post("/v1/tasks/revive", ids=wanted, dry_run=True))
    assert (await api.get(ids["a"]))["phase"] == "failed"
    assert [result["status"] for result in dry["results"]][1:] == [404, 200, 409]
    answer = done(await api.post("/v1/tasks/revive", ids=wanted))

    statuses = {result["id"]: result["status"] for result in answer["results"]}
    assert statuses == {ids["b"]: 409, unknown: 404, ids["a"]: 200, completed["id"]: 409}
    assert answer["failed"] == 3
    assert await api.counts() == {"submitted": 1, "submitted-blocked": 1}

    await fail_for_good(api, ids["a"])
    by_filter: Fields = done(await api.post("/v1/tasks/revive", filter={"queue": api.queue}))
    assert [result["id"] for result in by_filter["results"]] == [ids["a"]]
    assert await api.counts() == {"submitted": 1, "submitted-blocked": 1}


async def test_a_waiting_claim_gets_a_revived_task(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a"))
    for revive in (partial(api.revive, ids["a"]), partial(api.revive_job, job_id)):
        await api.cancel_job(job_id)
        waiting = asyncio.create_task(api.claim(wait=30))
        await revive()
        async with asyncio.timeout(10):
            [held] = await waiting
        assert held["id"] == ids["a"]
