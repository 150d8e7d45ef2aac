"""What went wrong for users of jobs in systems like this one, over HTTP: trials S15, S16, S17, S23 and S40.

(S3 is in `test_trials`, S47 in `test_jobs`.)
"""

import asyncio
import statistics
from collections import Counter
from collections.abc import Awaitable, Iterable
from itertools import pairwise
from typing import Any

import pytest

from tests.api.calls import Api, Fields, done, refused, seconds_between
from tests.api.test_jobs import phases, task


async def at_once(calls: Iterable[Awaitable[Any]], clients: int = 50) -> list[Any]:
    """Make calls, so many at a time."""
    limit = asyncio.Semaphore(clients)

    async def one(call: Awaitable[Any]) -> Any:  # noqa: ANN401
        async with limit:
            return await call

    return await asyncio.gather(*map(one, calls))


async def test_a_child_is_claimable_once_while_others_are_submitted(api: Api) -> None:
    """S15: 500 rounds of five parents, in which completions race each other, claims and submissions."""
    parents = [f"parent-{place}" for place in range(5)]
    deliveries: Counter[str] = Counter()
    children: set[str] = set()

    async def rounds(number: int) -> None:
        _, ids = await api.submit_job(
            *(task(f"{name} {each}") for name in parents for each in range(number)),
            *(
                task(f"child {each}", *(f"{name} {each}" for name in parents), current_state="child")
                for each in range(number)
            ),
            defaults={"current_state": "parent"},
        )
        for each in range(number):
            children.add(ids[f"child {each}"])
            ends = (api.complete(ids[f"{name} {each}"], current_state="parent") for name in parents)
            await asyncio.gather(*ends)
            deliveries.update(child["id"] for child in await api.claim(current_state="child", count=3))

    await asyncio.gather(*(rounds(50) for _ in range(10)))
    while late := await api.claim(current_state="child", count=100):
        deliveries.update(child["id"] for child in late)

    assert deliveries == dict.fromkeys(children, 1)
    assert len(children) == 500
    assert await api.counts() == {"child-working": 500}


async def test_two_hundred_parents_free_one_child_once(api: Api) -> None:
    """S16: whatever the parents come to, 50 clients at once; each delivery of the child is the first."""
    for round_of in ("complete", "any end"):
        names = [f"parent-{place}" for place in range(200)]
        state = f"child of {round_of}"
        job_id, ids = await api.submit_job(
            *map(task, names),
            task("child", *names, current_state=state, on_parent_failure="run"),
            task("strict", *names, current_state=f"strict {state}"),
        )
        held = await api.claim(count=200)
        waiting = [asyncio.create_task(api.claim(current_state=state, wait=60)) for _ in range(3)]

        def end(place: int, parent: Fields, *, mixed: bool) -> Awaitable[Fields]:
            if mixed and place % 5 == 1:
                return api.fail(parent["id"], delivery=1, retryable=False)
            if mixed and place % 5 == 2:
                return api.cancel(parent["id"])
            return api.complete(parent["id"], delivery=1)

        mixed = round_of == "any end"
        async with asyncio.timeout(30):
            answers = await at_once(end(place, parent, mixed=mixed) for place, parent in enumerate(held))
            finished, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert [child["id"] for poll in finished for child in poll.result()] == [ids["child"]]
        assert Counter(answer["replayed"] for answer in answers) == {False: 200}
        tasks = await api.job_tasks(job_id)
        assert (tasks["child"]["phase"], tasks["child"]["delivery"], tasks["child"]["waiting_on"]) == ("held", 1, 0)
        assert all(edge["done"] for edge in tasks["child"]["depends_on"])
        assert tasks["strict"]["phase"] == ("canceled" if mixed else "ready")
        await api.cancel_job(job_id)
        for poll in waiting:
            poll.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


DEPTH = 200


def chain() -> list[Fields]:
    names = [f"task-{place}" for place in range(DEPTH)]
    return [task("root"), *(task(name, ["root", *names][place]) for place, name in enumerate(names))]


def diamond() -> list[Fields]:
    """Make a hundred diamonds, each below the last."""
    tasks, top = [task("root")], "root"
    for place in range(DEPTH // 2):
        tasks += [task(f"left-{place}", top), task(f"right-{place}", top)]
        top = f"bottom-{place}"
        tasks.append(task(top, f"left-{place}", f"right-{place}"))
    return tasks


@pytest.mark.parametrize("graph", [chain, diamond])
async def test_all_descendants_end_with_the_root_and_live_again_with_it(api: Api, graph: Any) -> None:  # noqa: ANN401
    """S17."""
    tasks = graph()
    job_id, ids = await api.submit_job(*tasks, defaults={"max_attempts": 2, "backoff": 0})
    for attempt in (1, 2):
        [held] = await api.claim(count=10)
        assert held["id"] == ids["root"]
        assert await api.job_status(job_id) == "running"
        await api.fail(held["id"], delivery=attempt, error="broken")

    whole = await api.get_job(job_id)
    assert whole["job"]["status"] == "failed"
    assert whole["phase_counts"] == {"failed": 1, "canceled": len(tasks) - 1}
    assert await api.counts() == {}

    revived = await api.revive(ids["root"])

    assert (revived["task"]["phase"], revived["task"]["attempt"], revived["task"]["last_error"]) == ("ready", 0, None)
    whole = await api.get_job(job_id)
    assert whole["job"]["status"] == "running"
    assert whole["job"]["end_time"] is None
    assert whole["phase_counts"] == {"ready": 1, "parked": len(tasks) - 1}
    assert {task["waiting_on"] - len(task["depends_on"]) for task in whole["tasks"]} == {0}
    seen: list[str] = []
    while claimed := await api.claim(count=10):
        assert {task["delivery"] for task in claimed} == {3 if claimed[0]["name"] == "root" else 1}
        seen += (task["name"] for task in claimed)
        await asyncio.gather(*(api.complete(task["id"], delivery=task["delivery"]) for task in claimed))
    assert sorted(seen) == sorted(task["name"] for task in tasks)
    assert (await api.get_job(job_id))["job"]["status"] == "completed"


async def test_a_task_that_is_lost_too_often_is_dead(api: Api) -> None:
    """S23; and what waits for it ends."""
    job_id, ids = await api.submit_job(
        task("killer", max_lost=3), task("b", "killer"), task("c", "killer", on_parent_failure="run")
    )
    for delivery in (1, 2, 3):
        [held] = await api.claim(worker_id=f"w{delivery}")
        assert (held["id"], held["delivery"], held["lost"]) == (ids["killer"], delivery, delivery - 1)
        assert await api.clean_up() == 1

    dead = await api.get(ids["killer"])
    assert (dead["phase"], dead["lost"], dead["attempt"], dead["canceled_by"]) == ("failed", 3, 0, None)
    runs = await api.runs(ids["killer"])
    assert [(run["delivery"], run["worker_id"], run["outcome"]) for run in runs] == [
        (delivery, f"w{delivery}", "dead") for delivery in (1, 2, 3)
    ]
    assert all(run["end_time"] for run in runs)
    assert phases(await api.job_tasks(job_id)) == {"killer": "failed", "b": "canceled", "c": "ready"}
    refused(await api.try_complete(ids["killer"], delivery=3), 409, "ended")

    await api.revive(ids["killer"])

    alive = await api.get(ids["killer"])
    assert (alive["phase"], alive["lost"], alive["delivery"]) == ("ready", 0, 3)
    assert len(await api.runs(ids["killer"])) == 3
    assert phases(await api.job_tasks(job_id)) == {"killer": "ready", "b": "parked", "c": "ready"}


async def test_a_job_whose_many_roots_die_at_once_stops_no_cleanup(api: Api) -> None:
    """S23, at the largest: whatever hangs on each of 500 roots, it is ended, and so are all others' clocks."""
    roots = [f"root-{place}" for place in range(500)]
    rest = [f"task-{place}" for place in range(9_500)]
    job_id, _ = await api.submit_job(
        *map(task, roots),
        task(rest[0], *roots),
        *(task(name, before) for before, name in pairwise(rest)),
        defaults={"max_lost": 1},
    )
    assert len(await api.claim(count=500)) == 500
    await api.submit_held(current_state="other")

    cleanup = await api.client.post(
        "/v1/cleanup-timed-out", json={"queue": api.queue, "at_time": "2100-01-01T00:00:00Z"}, timeout=120
    )

    assert done(cleanup)["timed_out"] == 501
    assert (await api.get_job(job_id))["phase_counts"] == {"failed": 500, "canceled": 9_500}


async def test_retries_are_spread_over_the_jitter(api: Api) -> None:
    """S40: none early, and no herd."""
    starter = await api.submit_held(current_state="start")
    wanted = [{"queue": api.queue, "backoff": 20}] * 1_000
    await api.complete(starter["id"], delivery=1, next_tasks=wanted)
    held = await api.claim(count=1_000)
    assert len(held) == 1_000

    failed = [answer["task"] for answer in await at_once(api.fail(task["id"], delivery=1) for task in held)]

    pauses = sorted(seconds_between(task["update_time"], task["due_time"]) for task in failed)
    assert pauses[0] >= 0
    assert pauses[-1] <= 20
    assert statistics.fmean(pauses) == pytest.approx(10, abs=1)  # five standard errors
    deciles = Counter(int(pause // 2) for pause in pauses)
    assert len(deciles) == 10
    assert max(deciles.values()) < 160
    assert {task["current_state"] for task in failed} == {"submitted-retrying"}

    due = {
        task["id"]: task["due_time"] for task in failed if seconds_between(task["update_time"], task["due_time"]) < 3
    }
    seen: dict[str, str] = {}
    async with asyncio.timeout(60):
        while not due.keys() <= seen.keys():
            for again in await api.claim(count=100, wait=1):
                seen[again["id"]] = again["claim_time"]
                assert (again["attempt"], again["delivery"]) == (1, 2)
    due_times = {task["id"]: task["due_time"] for task in failed}
    assert [task_id for task_id, at in seen.items() if at < due_times[task_id]] == []


async def test_a_task_is_failed_once_by_many(api: Api) -> None:
    """S13, for failures: of 20 the same one counts, others' are refused."""
    for retryable in (True, False):
        held = await api.submit_held(max_attempts=5)

        answers = await at_once(api.fail(held["id"], delivery=1, error="e", retryable=retryable) for _ in range(20))

        assert Counter(answer["replayed"] for answer in answers) == {False: 1, True: 19}
        assert (await api.get(held["id"]))["attempt"] == 1
        refused(await api.try_fail(held["id"], delivery=1, error="f", retryable=retryable), 409, "other_request")


async def test_of_parallel_ends_in_a_job_one_wins(api: Api) -> None:
    """And its dependents follow that one."""
    for _ in range(30):
        job_id, ids = await api.submit_job(task("a"), task("b", "a"), task("c", "a", on_parent_failure="run"))
        await api.claim()

        endings = await asyncio.gather(
            api.try_complete(ids["a"], delivery=1),
            api.try_fail(ids["a"], delivery=1, retryable=False),
            api.try_cancel(ids["a"]),
            api.try_cancel(ids["b"]),
            api.try_cancel_job(job_id),
        )

        assert {ending.status_code for ending in endings} <= {200, 409}
        tasks = await api.job_tasks(job_id)
        a, b, c = (tasks[name] for name in "abc")
        assert a["phase"] in {"completed", "failed", "canceled"}
        assert b["phase"] == "canceled"
        if c["canceled_by"] != "job":
            assert c["phase"] == "ready"
        if a["canceled_by"] == "job":
            assert (b["canceled_by"], c["canceled_by"]) in {("job", "job"), ("request", "job")}
        await api.try_cancel_job(job_id)
