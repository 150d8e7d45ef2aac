"""What went wrong for users of systems like this one, over HTTP: trials S1, S3, S4, S13, S33 and S44.

(S25 is in `test_payloads`, S26 in `test_sizes`, S45 in `test_bad_values`, S49 in `test_queue_names`.)
"""

import asyncio
from collections import Counter
from datetime import datetime, timedelta, timezone
from itertools import count

import pytest

from tests.api.calls import Api, Fields, done, refused, seconds_between


async def submit_many(api: Api, number: int, **fields: object) -> list[str]:
    """Submit tasks, through the completion of another one."""
    starter = await api.submit_held(current_state="start")
    wanted = [{"queue": api.queue} | fields] * number
    ids: list[str] = (await api.complete(starter["id"], delivery=1, next_tasks=wanted))["next_tasks"]
    return ids


async def test_completes_race_cleanups_at_the_deadline(api: Api) -> None:
    """S1."""
    ids = await submit_many(api, 200, work_timeout=1)
    held = await api.claim(count=200)
    assert len(held) == 200
    done_racing = asyncio.Event()
    swept = 0

    async def clean_up() -> None:
        nonlocal swept
        while not done_racing.is_set():
            swept += await api.clean_up()

    async def complete(task: Fields) -> tuple[str, int]:
        return task["id"], (await api.try_complete(task["id"], delivery=1)).status_code

    cleaning = asyncio.create_task(clean_up())
    outcomes = dict(await asyncio.gather(*(complete(task) for task in held)))
    done_racing.set()
    await cleaning

    statuses = Counter(outcomes.values())
    assert statuses.keys() <= {200, 409}
    assert statuses[409] == swept
    again = await api.claim(count=1000)
    completed = {task_id for task_id, status in outcomes.items() if status == 200}
    assert completed.isdisjoint(task["id"] for task in again)
    assert completed | {task["id"] for task in again} == set(ids)
    assert {task["delivery"] for task in again} <= {2}
    for task in again:
        await api.complete(task["id"], delivery=2)
    assert await api.counts() == {}
    archived = await api.list(archived=True, current_state="completed", limit=1000)
    assert Counter(task["delivery"] for task in archived if task["home_state"] != "start") == {
        delivery: number for delivery, number in {1: statuses[200], 2: swept}.items() if number
    }


async def test_a_stale_holder_changes_nothing(api: Api) -> None:
    """S3."""
    stale = await api.submit_held(payload={"kept": True}, work_timeout=60)
    await api.clean_up()
    [held] = await api.claim(worker_id="b")

    for refusal in (
        await api.try_update(stale["id"], delivery=1, payload={"kept": False}),
        await api.try_update(stale["id"], delivery=1, new_state="mine", payload={"kept": False}),
        await api.try_update(stale["id"], delivery=1, timeout=9999, priority=9),
        await api.try_release(stale["id"], delivery=1),
        await api.try_release(stale["id"], delivery=1, delay=5),
        await api.try_complete(stale["id"], delivery=1, result={"wrong": 1}, next_task={"queue": api.queue}),
        await api.try_cancel(stale["id"], delivery=1),
        await api.try_fail(stale["id"], delivery=1, error="wrong"),
        await api.try_fail(stale["id"], delivery=1, error="wrong", retryable=False),
    ):
        await api.refuses_to_change(held, refusal, 409, "stale_delivery")
    [beat] = done(await api.post("/v1/tasks/heartbeat", deliveries=[{"id": stale["id"], "delivery": 1}]))["deliveries"]
    assert beat["status"] == "lost"
    after = await api.get(held["id"])
    assert after == {name: held[name] for name in after}

    assert (await api.complete(held["id"], delivery=2, result="right"))["replayed"] is False
    assert (await api.get(held["id"], include="result"))["result"] == "right"
    for refusal in (await api.try_complete(stale["id"], delivery=1), await api.try_update(stale["id"], delivery=1)):
        refused(refusal, 409, "ended")


async def test_a_timed_out_task_is_delivered_once_to_many_pollers(api: Api) -> None:
    """S4."""
    for _ in range(20):
        task = await api.submit_held()
        assert await api.clean_up() == 1

        claims = await asyncio.gather(*(api.claim() for _ in range(10)))

        assert sorted(map(len, claims)) == [0] * 9 + [1]
        [held] = [claimed[0] for claimed in claims if claimed]
        assert (held["id"], held["delivery"]) == (task["id"], 2)
        await api.complete(task["id"], delivery=2)
        assert await api.list() == []
        assert await api.counts() == {}
        assert await api.claim(count=10) == []
        assert await api.clean_up() == 0


@pytest.mark.parametrize("match", [{"delivery": 1}, {"current_state": "submitted"}], ids=["held", "unheld"])
async def test_parallel_completes_make_one_next_task(api: Api, match: Fields) -> None:
    """S13."""
    for _ in range(10):
        task = await (api.submit_held() if "delivery" in match else api.submit())
        request = match | {"result": 1, "next_task": {"queue": api.queue, "current_state": "next"}}

        answers = await asyncio.gather(*(api.complete(task["id"], **request) for _ in range(20)))

        assert len({answer["next_tasks"][0] for answer in answers}) == 1
        assert Counter(answer["replayed"] for answer in answers) == {False: 1, True: 19}
        assert all(answer["task"] == answers[0]["task"] for answer in answers)
        assert await api.counts() == {"next": 1}
        await api.cancel(answers[0]["next_tasks"][0])


async def test_parallel_moves_and_releases_happen_once(api: Api) -> None:
    """S13, for the other writes that end a hold."""
    held = await api.submit_held()
    moves = await asyncio.gather(*(api.update(held["id"], delivery=1, new_state="n") for _ in range(20)))
    assert Counter(answer["replayed"] for answer in moves) == {False: 1, True: 19}

    [held] = await api.claim(current_state="n")
    releases = await asyncio.gather(*(api.release(held["id"], delivery=2) for _ in range(20)))
    assert Counter(answer["replayed"] for answer in releases) == {False: 1, True: 19}

    cancels = await asyncio.gather(*(api.cancel(held["id"]) for _ in range(20)))
    assert Counter(answer["replayed"] for answer in cancels) == {False: 1, True: 19}


async def test_of_parallel_endings_one_wins(api: Api) -> None:
    """S13, with requests that are not the same."""
    for _ in range(20):
        held = await api.submit_held()
        endings = await asyncio.gather(
            api.try_complete(held["id"], delivery=1, next_task={"queue": api.queue, "current_state": "next"}),
            api.try_complete(held["id"], delivery=1, result=2),
            api.try_release(held["id"], delivery=1),
            api.try_update(held["id"], delivery=1, new_state="moved"),
            api.try_cancel(held["id"], delivery=1),
            api.post("/v1/cleanup-timed-out", queue=api.queue, at_time="2100-01-01T00:00:00Z"),
        )
        *writes, sweep = endings
        won = [write.status_code for write in writes].count(200) + done(sweep)["timed_out"]
        assert won == 1
        assert {write.status_code for write in writes} <= {200, 409}
        for task in await api.list():
            await api.cancel(task["id"])


async def test_three_tasks_and_three_simultaneous_claimers(api: Api) -> None:
    """S33, its first half."""
    names = [f"{api.queue}-{letter}" for letter in "abc"]
    for number in range(60):
        ids = {(await api.submit(queue=names[place if number % 2 else 0]))["id"] for place in range(3)}

        claims = await asyncio.gather(*(api.claim(queues=names) for _ in range(3)))

        assert {task["id"] for claimed in claims for task in claimed} == ids
        assert [len(claimed) for claimed in claims] == [1, 1, 1]


async def test_many_claimers_share_tasks_of_several_queues(api: Api) -> None:
    names = [f"{api.queue}-{letter}" for letter in "abcd"]
    ids = [(await api.submit(queue=names[number % 4], priority=number % 5))["id"] for number in range(120)]
    claimed: list[str] = []

    async def work(worker: int) -> None:
        # Some want all queues, in any order, some a few of them.
        wanted = names[worker % 4 :] + names[: worker % 4]
        for size in count(1):
            tasks = await api.claim(queues=wanted, count=1 + size % 4)
            if not tasks:
                return
            claimed.extend(task["id"] for task in tasks)

    await asyncio.gather(*(work(worker) for worker in range(16)))

    assert Counter(claimed) == Counter(ids)


async def test_delays_are_never_early(api: Api) -> None:
    """S44: by the database's clock, which all times in answers are of."""
    delays = [0.001, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.000001]
    due: dict[str, str] = {}
    for delay in delays:
        task = await api.submit(delay=delay)
        due[task["id"]] = task["due_time"] or task["submit_time"]
    released = await api.submit_held(current_state="other")
    parked = await api.release(released["id"], delivery=1, delay=0.3)
    due[released["id"]] = parked["task"]["due_time"]

    claim_times: dict[str, str] = {}
    async with asyncio.timeout(60):
        while len(claim_times) < len(due):
            for state in ("submitted", "other"):
                for task in await api.claim(current_state=state, count=5):
                    claim_times[task["id"]] = task["claim_time"]

    early = {task_id: seconds_between(due[task_id], at) for task_id, at in claim_times.items() if at < due[task_id]}
    assert early == {}


async def test_a_run_at_in_the_near_future_is_never_early(api: Api) -> None:
    """S44."""
    now = datetime.fromisoformat((await api.submit(current_state="clock"))["submit_time"])
    run_at = now + timedelta(seconds=0.7)
    task = await api.submit(run_at=run_at.astimezone(timezone(timedelta(hours=-7, minutes=-30))).isoformat())
    assert (task["phase"], datetime.fromisoformat(task["due_time"])) == ("parked", run_at)

    ready = await api.until_ready(task["id"])

    assert datetime.fromisoformat(ready["update_time"]) >= run_at
    [held] = await api.claim()
    assert datetime.fromisoformat(held["claim_time"]) >= run_at


async def test_long_delays_stay_parked(api: Api) -> None:
    """S44: 30 days and ten years are waited for, and cost nothing."""
    month = await api.submit(delay=2592000)
    decade = await api.submit(delay=315360000)

    for task, delay in ((month, 2592000), (decade, 315360000)):
        assert seconds_between(task["submit_time"], task["due_time"]) == delay
    await api.until_ready((await api.submit(delay=0.3, current_state="later"))["id"])
    assert await api.counts() == {"submitted-scheduled": 2, "later": 1}


async def test_timeouts_are_never_early(api: Api) -> None:
    """S44: a cleanup at the present time ends no clock that still runs."""
    held = await api.submit_held(work_timeout=0.4)
    swept_at = None
    async with asyncio.timeout(60):
        while swept_at is None:
            if await api.clean_up(None):
                swept_at = (await api.get(held["id"]))["update_time"]

    assert swept_at >= held["due_time"]
    assert (await api.get(held["id"]))["lost"] == 1
