"""Jobs: what waits for what, what its end does to others, and what a job's status says."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from tests.api.calls import Api, Fields, done, refused, seconds_between

MIB = 1024 * 1024


def task(name: str, *parents: str, **fields: object) -> Fields:
    return {"name": name, "depends_on": list(parents)} | fields


def phases(tasks: dict[str, Fields]) -> dict[str, str]:
    return {name: task["phase"] for name, task in tasks.items()}


async def listed(api: Api, **query: str) -> list[Fields]:
    """List jobs under a name that no other test uses."""
    return list(done(await api.client.get("/v1/jobs", params={"name": api.queue} | query))["jobs"])


async def test_roots_are_ready_and_the_rest_is_blocked(api: Api) -> None:
    job_id, ids = await api.submit_job(
        task("last", "a", "b"), task("a"), task("b", "a", current_state="fresh", auto_target_state="going")
    )

    tasks = await api.job_tasks(job_id)
    assert {name: task["id"] for name, task in tasks.items()} == ids
    assert phases(tasks) == {"a": "ready", "b": "parked", "last": "parked"}
    shown = ("current_state", "auto_target_state", "home_state", "home_target", "waiting_on", "due_time", "job_id")
    assert [tasks["b"][field] for field in shown] == ["fresh-blocked", "fresh", "fresh", "going", 1, None, job_id]
    assert [tasks["last"][field] for field in shown] == [
        *("submitted-blocked", "submitted", "submitted", "submitted-working", 2, None, job_id)
    ]
    assert await api.counts() == {"submitted": 1, "fresh-blocked": 1, "submitted-blocked": 1}
    assert tasks["last"]["depends_on"] == [{"name": "a", "done": False}, {"name": "b", "done": False}]
    assert await api.job_status(job_id) == "pending"


async def test_roots_are_claimed_in_the_order_given(api: Api) -> None:
    """Whatever the order in which others name them as their parents."""
    await api.submit_job(task("child", "z", "m"), task("a"), task("m"), task("z"), task("b"))

    assert [task["name"] for task in await api.claim(count=10)] == ["a", "m", "z", "b"]


async def test_each_edge_counts_once_and_the_last_unparks(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a"), task("b"), task("child", "a", "b", current_state="fresh"))
    held = await api.claim_names()
    assert await api.job_status(job_id) == "running"

    await api.complete(ids["a"], delivery=1, result=1)
    assert (await api.complete(ids["a"], delivery=1, result=1))["replayed"]
    child = (await api.job_tasks(job_id))["child"]
    assert (child["phase"], child["waiting_on"]) == ("parked", 1)
    assert child["depends_on"] == [{"name": "a", "done": True}, {"name": "b", "done": False}]

    await api.complete(held["b"]["id"], delivery=1)
    child = await api.get(ids["child"])
    assert (child["phase"], child["waiting_on"], child["current_state"]) == ("ready", 0, "fresh")
    [claimed] = await api.claim(current_state="fresh")
    assert (claimed["id"], claimed["delivery"]) == (ids["child"], 1)
    await api.complete(ids["child"], delivery=1)

    job = (await api.get_job(job_id))["job"]
    assert job["status"] == "completed"
    assert job["end_time"] is not None


async def test_an_unheld_completion_counts_too(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a"), task("child", "a"))

    await api.complete(ids["a"], current_state="submitted")

    assert await api.job_status(job_id) == "running"
    assert list(await api.claim_names()) == ["child"]


async def test_a_next_task_is_outside_the_job(api: Api) -> None:
    job_id, _ = await api.submit_job(task("a"), task("child", "a"))
    [held] = await api.claim()

    answer = await api.complete(held["id"], delivery=1, next_task={"queue": api.queue, "current_state": "next"})

    following = await api.get(answer["next_tasks"][0])
    assert (following["job_id"], following["name"], following["phase"]) == (None, None, "ready")
    assert phases(await api.job_tasks(job_id)) == {"a": "completed", "child": "ready"}


async def test_a_blocked_tasks_own_clocks_begin_when_its_last_parent_is_done(api: Api) -> None:
    past, future = (datetime.now(UTC) + timedelta(hours=sign) for sign in (-1, 1))
    _, ids = await api.submit_job(
        task("a"),
        task("delayed", "a", delay=3600),
        task("soon", "a", delay=0.3, current_state="soon"),
        task("at", "a", run_at=future.isoformat()),
        task("past", "a", run_at=past.isoformat()),
        task("timed", "a", timeout=600, auto_target_state="late"),
    )
    blocked = await api.get(ids["delayed"])
    assert (blocked["current_state"], blocked["due_time"]) == ("submitted-blocked", None)
    [held] = await api.claim()

    ended = (await api.complete(held["id"], delivery=1))["task"]

    delayed, soon, at, ready, timed = [await api.get(ids[name]) for name in ("delayed", "soon", "at", "past", "timed")]
    assert (delayed["phase"], delayed["current_state"], delayed["waiting_on"]) == ("parked", "submitted-scheduled", 0)
    assert seconds_between(ended["update_time"], delayed["due_time"]) == pytest.approx(3600, abs=1)
    assert seconds_between(delayed["update_time"], delayed["due_time"]) == 3600
    assert (at["current_state"], datetime.fromisoformat(at["due_time"])) == ("submitted-scheduled", future)
    assert (ready["phase"], ready["current_state"], ready["due_time"]) == ("ready", "submitted", None)
    assert (timed["phase"], timed["timeout"]) == ("ready", 600)
    assert seconds_between(timed["update_time"], timed["due_time"]) == 600
    released = await api.until_ready(ids["soon"])
    assert seconds_between(soon["due_time"], released["update_time"]) >= 0
    assert released["current_state"] == "soon"


async def test_a_blocked_task_takes_cancel_only(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a"), task("b", "a"), task("c", "b"))
    before = await api.get(ids["b"])
    state = before["current_state"]

    for refusal in (
        await api.try_update(ids["b"], current_state=state, priority=1),
        await api.try_update(ids["b"], current_state=state, new_state="elsewhere"),
        await api.try_complete(ids["b"], current_state=state),
    ):
        refused(refusal, 409, "blocked")
    for refusal in (
        await api.try_fail(ids["b"], delivery=0 + 1),
        await api.try_release(ids["b"], delivery=1),
    ):
        assert refusal.status_code == 409
    replayed = await api.revive(ids["b"])
    assert replayed["replayed"] is True
    await api.clean_up()
    assert await api.get(ids["b"]) == before
    assert [task["name"] for task in await api.claim(count=10)] == ["a"]
    assert await api.claim(current_state=state) == []

    canceled = (await api.cancel(ids["b"]))["task"]

    assert (canceled["phase"], canceled["canceled_by"]) == ("canceled", "request")
    tasks = await api.job_tasks(job_id)
    assert phases(tasks) == {"a": "held", "b": "canceled", "c": "canceled"}
    assert tasks["c"]["canceled_by"] == "parent"
    assert "b" in tasks["c"]["last_error"]


@pytest.mark.parametrize("end", ["fail", "cancel", "dead"])
async def test_an_end_cancels_all_that_waits_for_it(api: Api, end: str) -> None:
    job_id, ids = await api.submit_job(
        task("root", max_lost=1),
        task("other"),
        task("left", "root"),
        task("right", "root"),
        task("both", "left", "right"),
        task("mixed", "both", "other"),
        task("free", "other"),
        task("after-all", "both", on_parent_failure="run"),
        task("beyond", "after-all"),
        task("at-once", "root", on_parent_failure="run"),
    )
    [held] = [task for task in await api.claim(count=1) if task["name"] == "root"]

    if end == "fail":
        await api.fail(held["id"], delivery=1, error="broken", retryable=False)
    elif end == "cancel":
        await api.cancel(held["id"])
    else:
        await api.clean_up()

    phase = "canceled" if end == "cancel" else "failed"
    tasks = await api.job_tasks(job_id)
    assert phases(tasks) == {
        "root": phase, "other": "ready", "left": "canceled", "right": "canceled", "both": "canceled",
        "mixed": "canceled", "free": "parked", "after-all": "ready", "beyond": "parked", "at-once": "ready",
    }  # fmt: skip
    for name in ("left", "right", "both", "mixed"):
        assert tasks[name]["canceled_by"] == "parent"
        assert tasks[name]["last_error"] == f"the task root, which this one depends on, ended as {phase}"
        assert tasks[name]["current_state"] == tasks[name]["auto_target_state"] == "canceled"
        assert await api.runs(ids[name]) == []
    assert tasks["root"]["canceled_by"] == ("request" if end == "cancel" else None)
    assert await api.job_status(job_id) == "running"
    for round_of in ({"other", "after-all", "at-once"}, {"free", "beyond"}):
        claimed = await api.claim_names()
        assert claimed.keys() == round_of
        for each in claimed.values():
            await api.complete(each["id"], delivery=1)
    assert await api.job_status(job_id) == phase


async def test_a_failure_that_is_retried_holds_its_children_up(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a", max_attempts=2), task("b", "a"))
    [held] = await api.claim()

    await api.fail(held["id"], delivery=1, retry_in=0)
    assert phases(await api.job_tasks(job_id)) == {"a": "ready", "b": "parked"}
    [held] = await api.claim()
    await api.fail(held["id"], delivery=2, error="again")

    assert phases(await api.job_tasks(job_id)) == {"a": "failed", "b": "canceled"}
    assert (await api.get(ids["a"]))["attempt"] == 2
    assert await api.job_status(job_id) == "failed"


async def test_the_status_is_final_only_when_all_have_ended(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a"), task("b"), task("c"))
    await api.cancel(ids["a"])
    assert await api.job_status(job_id) == "pending"  # nobody has claimed anything
    [held] = await api.claim()
    await api.fail(held["id"], delivery=1, retryable=False)
    job = (await api.get_job(job_id))["job"]
    assert (job["status"], job["end_time"]) == ("running", None)
    await api.cancel(ids["c"])

    whole = await api.get_job(job_id)

    assert (whole["job"]["status"], whole["phase_counts"]) == ("failed", {"canceled": 2, "failed": 1})


async def test_a_delivery_carries_its_parents(api: Api) -> None:
    _, ids = await api.submit_job(
        task("json"), task("bytes"), task("none"), task("bad"),
        task("child", "json", "bytes", "none", "bad", on_parent_failure="run", current_state="fresh"),
        task("alone", current_state="other"),
    )  # fmt: skip
    await api.claim(count=10)
    await api.complete(ids["json"], delivery=1, result={"big": 2**70, "text": "\0é😀"})
    await api.complete(ids["bytes"], delivery=1, result_base64=base64.b64encode(bytes(range(256))).decode())
    await api.complete(ids["none"], delivery=1)
    await api.fail(ids["bad"], delivery=1, retryable=False, error="broken é😀")

    [child] = await api.claim(current_state="fresh", include=["dependencies"])

    parents = child["dependencies"]
    assert parents.keys() == {"json", "bytes", "none", "bad"}
    assert parents["json"]["result"] == {"big": 2**70, "text": "\0é😀"}
    assert base64.b64decode(parents["bytes"]["result_base64"]) == bytes(range(256))
    assert (parents["none"]["phase"], "result" in parents["none"], parents["none"]["result_omitted"]) == (
        *("completed", False, False),
    )
    assert (parents["bad"]["phase"], parents["bad"]["last_error"]) == ("failed", "broken é😀")
    assert (await api.get(ids["child"], include="dependencies"))["dependencies"] == parents
    assert "dependencies" not in await api.get(ids["child"])
    [alone] = await api.claim(current_state="other", include=["dependencies"])
    assert alone["dependencies"] == {}


async def test_results_beyond_16_mib_together_are_omitted(api: Api) -> None:
    _, ids = await api.submit_job(
        task("a"), task("b"), task("c"), task("child", "a", "b", "c", current_state="fresh"),
        task("exact", "a", "b", current_state="exact"),
    )  # fmt: skip
    await api.claim(count=10)
    half = base64.b64encode(b"x" * (8 * MIB)).decode()
    for name, result in (("a", half), ("b", half), ("c", base64.b64encode(b"y").decode())):
        await api.complete(ids[name], delivery=1, result_base64=result)

    [child] = await api.claim(current_state="fresh", include=["dependencies"])
    [exact] = await api.claim(current_state="exact", include=["dependencies"])

    assert {name: parent["result_omitted"] for name, parent in child["dependencies"].items()} == {
        "a": False, "b": False, "c": True,
    }  # fmt: skip
    assert "result_base64" not in child["dependencies"]["c"]
    assert base64.b64decode((await api.get(ids["c"], include="result"))["result_base64"]) == b"y"
    assert [parent["result_omitted"] for parent in exact["dependencies"].values()] == [False, False]
    assert len(exact["dependencies"]["a"]["result_base64"]) == len(half)


async def test_canceling_a_job_ends_all_its_live_tasks(api: Api) -> None:
    job_id, ids = await api.submit_job(
        task("done"), task("held"), task("ready"), task("later", delay=3600), task("blocked", "held"),
        task("runs", "held", on_parent_failure="run"), task("one"),
    )  # fmt: skip
    await api.cancel(ids["one"])
    held = await api.claim_names(count=2)
    await api.complete(ids["done"], delivery=1)

    canceled = await api.cancel_job(job_id)

    assert (canceled["job"]["status"], canceled["replayed"]) == ("canceled", False)
    assert canceled["job"]["end_time"] is not None
    tasks = await api.job_tasks(job_id)
    assert {name: (task["phase"], task["canceled_by"]) for name, task in tasks.items()} == {
        "done": ("completed", None), "one": ("canceled", "request"),
    } | dict.fromkeys(("held", "ready", "later", "blocked", "runs"), ("canceled", "job"))  # fmt: skip
    refused(await api.try_complete(held["held"]["id"], delivery=1), 409, "ended")
    [run] = await api.runs(ids["held"])
    assert run["outcome"] == "canceled"
    assert await api.counts() == {}
    again = await api.cancel_job(job_id)
    assert (again["job"], again["replayed"]) == (canceled["job"], True)


async def test_a_repeated_cancel_is_one_although_a_task_had_failed(api: Api) -> None:
    """The job is called failed then, and yet it's the cancel that has ended it."""
    job_id, ids = await api.submit_job(task("a"), task("b"))
    await api.claim(count=1)
    await api.fail(ids["a"], delivery=1, retryable=False)
    first = await api.cancel_job(job_id)
    assert (first["job"]["status"], first["replayed"]) == ("failed", False)

    assert await api.cancel_job(job_id) == first | {"replayed": True}


async def test_an_ended_job_is_not_canceled(api: Api) -> None:
    job_id, ids = await api.submit_job(task("a"))
    await api.complete(ids["a"], current_state="submitted")
    refused(await api.try_cancel_job(job_id), 409, "ended")
    refused(await api.try_revive_job(job_id), 409, "ended")

    failed_id, _ = await api.submit_job(task("a"))
    [held] = await api.claim()
    await api.fail(held["id"], delivery=1, retryable=False)
    refused(await api.try_cancel_job(failed_id), 409, "ended")


async def test_unknown_jobs(api: Api) -> None:
    job_id = "00000000-0000-4000-8000-000000000000"
    for response in (
        await api.client.get(f"/v1/jobs/{job_id}"),
        await api.try_cancel_job(job_id),
        await api.try_revive_job(job_id),
    ):
        refused(response, 404, "job_not_found")


async def test_all_faults_are_told_at_once_and_nothing_is_created(api: Api) -> None:
    response = await api.try_submit_job(
        [
            task("self", "self"),
            task("twice"),
            task("twice"),
            task("unknown", "nobody", "self", "self"),
            task("both", delay=1, run_at="2030-01-01T00:00:00Z"),
            task("clock", timeout=5),
            task("time", run_at="yesterday"),
            task("named\x07"),
            task("fine"),
        ],
        name=api.queue,
    )

    problem = await api.refuses(response, 400, "invalid_job", "tasks[4].run_at")
    told = {error["field"]: error["detail"] for error in problem["errors"]}
    assert {
        "tasks[0].depends_on[0]", "tasks[2].name", "tasks[3].depends_on[0]", "tasks[3].depends_on[2]",
        "tasks[4].run_at", "tasks[5].timeout", "tasks[6].run_at", "tasks[7].name",
    } == told.keys()  # fmt: skip
    assert "work_timeout" in told["tasks[5].timeout"]
    assert await listed(api) == []


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ([task("a", "a")], "depends on itself"),
        ([task("a", "b"), task("b", "c"), task("c", "a"), task("fine")], "'a' → 'b' → 'c'"),
        ([task("a", "b")], "no task 'b'"),
        ([task("a"), task("a")], "more than once"),
        ([task("a"), task("b", "a", "a")], "more than once"),
        ([], "at least one"),
    ],
    ids=["itself", "cycle of 3", "unknown", "duplicate name", "duplicate dependency", "no tasks"],
)
async def test_graphs_that_are_none(api: Api, tasks: list[Fields], says: str) -> None:
    """S47; of the cycle the path is told."""
    problem = refused(
        response := await api.try_submit_job(tasks, name=api.queue), 400, "invalid_job", response.json()["field"]
    )
    [error] = problem["errors"]
    doubled = error["detail"] + " → " + error["detail"].rpartition(": ")[2]
    assert says in doubled or all(edge in doubled for edge in ("'a' → 'b'", "'b' → 'c'", "'c' → 'a'"))
    assert await api.list() == []
    assert await listed(api) == []


async def test_an_empty_depends_on_is_a_root(api: Api) -> None:
    """S47."""
    await api.submit_job({"name": "a", "depends_on": []}, {"name": "b"})

    assert list(await api.claim_names()) == ["a", "b"]


async def test_ten_thousand_tasks_and_not_one_more(api: Api) -> None:
    names = [f"task-{number}" for number in range(10_000)]
    wide = [task("root"), *(task(name, "root") for name in names[2:]), task("end", *names[2:])]

    refusal = await api.try_submit_job([*wide, task("more")])
    problem = await api.refuses(refusal, 400, "invalid_job", "tasks")
    assert "10000" in problem["detail"]

    job_id, ids = await api.submit_job(*wide)
    assert len(ids) == 10_000
    [held] = await api.claim(count=10)
    await api.complete(held["id"], delivery=1)
    assert await api.counts() == {"submitted": 9_998, "submitted-blocked": 1}
    assert (await api.get(ids["end"]))["waiting_on"] == 9_998
    canceled = await api.cancel_job(job_id)
    assert canceled["job"]["status"] == "canceled"
    revived = await api.revive_job(job_id)
    assert revived["job"]["status"] == "running"
    assert await api.counts() == {"submitted": 9_998, "submitted-blocked": 1}
    # The last failure of one root ends a chain of ten thousand, too.
    await api.cancel_job(job_id)
    deep_id, deep = await api.submit_job(
        task(names[0]), *(task(names[n], names[n - 1]) for n in range(1, 10_000)), defaults={"current_state": "deep"}
    )
    [held] = await api.claim(current_state="deep")
    await api.fail(held["id"], delivery=1, retryable=False)
    assert (await api.get_job(deep_id))["phase_counts"] == {"failed": 1, "canceled": 9_999}
    assert (await api.revive(deep[names[0]]))["task"]["phase"] == "ready"
    assert (await api.get_job(deep_id))["phase_counts"] == {"ready": 1, "parked": 9_999}
    await api.cancel_job(deep_id)


async def test_jobs_are_listed_and_filtered(api: Api) -> None:
    made = [(await api.submit_job(task("a"), name=api.queue, metadata={"number": n}))[0] for n in range(5)]
    [held] = await api.claim(count=1)
    await api.complete(held["id"], delivery=1)
    await api.cancel_job(made[1])

    whole = await listed(api)
    assert [job["id"] for job in whole] == made[::-1]
    assert [job["metadata"]["number"] for job in whole] == [4, 3, 2, 1, 0]
    assert [job["status"] for job in whole] == ["pending", "pending", "pending", "canceled", "completed"]

    pages: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = done(await api.client.get("/v1/jobs", params={"name": api.queue, "limit": "2"} | cursor))
        pages.append([job["id"] for job in page["jobs"]])
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [job_id for page in pages for job_id in page] == made[::-1]
    other = await api.client.get("/v1/jobs", params={"name": "other"} | cursor)
    refused(other, 400, "invalid_cursor", "cursor")

    async def of_status(status: str) -> list[str]:
        return [job["id"] for job in await listed(api, status=status)]

    poll = AsyncRetrying(
        retry=retry_if_result(lambda ids: ids != [made[0]]), wait=wait_fixed(0.05), stop=stop_after_delay(10)
    )
    await poll(of_status, "completed")
    assert await of_status("canceled") == [made[1]]
    assert await of_status("pending") == made[:1:-1]
    assert await of_status("failed") == []
    times = [job["submit_time"] for job in whole]
    between = await listed(api, submitted_after=times[3], submitted_before=times[1])
    assert [job["id"] for job in between] == [made[2], made[1]]


async def test_defaults_hold_for_tasks_that_do_not_say_otherwise(api: Api) -> None:
    _, ids = await api.submit_job(
        task("a"),
        task("b", max_attempts=None, backoff=1, priority=0, work_timeout=None),
        defaults={"max_attempts": 7, "backoff": 9, "priority": 3, "work_timeout": 60, "kind": "k"},
    )

    a, b = await api.get(ids["a"]), await api.get(ids["b"])
    assert (a["max_attempts"], a["backoff"], a["priority"], a["work_timeout"], a["kind"]) == (7, 9, 3, 60, "k")
    assert (b["max_attempts"], b["backoff"], b["priority"], b["work_timeout"], b["kind"]) == (None, 1, 0, None, "k")


async def test_a_task_of_a_job_moves_like_any_other(api: Api) -> None:
    """An update keeps the hold of its children; its completion in another state frees them."""
    job_id, ids = await api.submit_job(task("a"), task("b", "a"))
    [held] = await api.claim()
    await api.update(held["id"], delivery=1, new_state="second")
    [held] = await api.claim(current_state="second")
    await api.release(held["id"], delivery=2)
    assert phases(await api.job_tasks(job_id)) == {"a": "ready", "b": "parked"}
    [held] = await api.claim(current_state="second")

    await api.complete(ids["a"], delivery=3)

    assert phases(await api.job_tasks(job_id)) == {"a": "completed", "b": "ready"}


async def test_a_waiting_claim_is_woken_by_the_last_parent(api: Api) -> None:
    await api.submit_job(task("a"), task("b", "a", current_state="second"))
    [held] = await api.claim()
    waiting = asyncio.create_task(api.claim(current_state="second", wait=30))

    await api.complete(held["id"], delivery=1)

    async with asyncio.timeout(10):
        [second] = await waiting
    assert second["name"] == "b"
