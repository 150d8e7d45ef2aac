"""What is purged, and what is not: design section 4, and scenario S20."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from corndog.domain.errors import NotFound
from corndog.domain.jobs import JobStatus
from corndog.domain.listing import Filter, Include, Place
from corndog.domain.task import Match, Phase
from corndog.service import retention as module
from corndog.service.retention import EndedJobs, EndedTasks, Retention, of_ended
from corndog.store.engine import Connection
from tests.faults import CountingDatabase, Death, DyingDatabase
from tests.store.house import HOUR, MICROSECOND, TEXT, House, held_match
from tests.store.jobs import DAY, end, end_job, ended_task, follow, new_job, set_back, traces

KEPT = {Phase.COMPLETED: 7 * DAY, Phase.FAILED: 30 * DAY, Phase.CANCELED: 5 * DAY}
SHORTEST = dict.fromkeys(KEPT, MICROSECOND)
CHAIN: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"]}
NEVER = 10**6


def purges(house: House, kept: Mapping[Phase, timedelta] = KEPT) -> Retention:
    return Retention(of_ended(house.database, kept))


# Tasks of no job --------------------------------------------------------------


@pytest.mark.parametrize("phase", KEPT)
async def test_tasks_go_by_the_time_of_their_outcome_with_all_that_they_left(any_house: House, phase: Phase) -> None:
    due = await ended_task(any_house, phase, KEPT[phase] + HOUR)
    kept = await ended_task(any_house, phase, KEPT[phase] - HOUR)
    expected = {"archived_tasks": 1, "payloads": 1, "task_runs": 1}
    expected |= {"results": 1} if phase is Phase.COMPLETED else {}
    assert await traces(any_house, [due.id]) == await traces(any_house, [kept.id]) == expected

    assert await purges(any_house).purge() == 1

    assert await traces(any_house, [due.id]) == {}
    assert await traces(any_house, [kept.id]) == expected
    assert await purges(any_house).purge() == 0
    with pytest.raises(NotFound):
        await any_house.endings.complete(due.id, held_match(due), TEXT, [])


@pytest.mark.parametrize("phase", KEPT)
async def test_zero_keeps_for_ever(any_house: House, phase: Phase) -> None:
    tasks = {phase: await ended_task(any_house, phase, 3650 * DAY) for phase in KEPT}
    job = await new_job(any_house, {"alone": []})
    await end(any_house, job.tasks["alone"], phase)
    await end_job(any_house, job, 3650 * DAY, JobStatus(phase))

    await purges(any_house, KEPT | {phase: timedelta(0)}).purge()

    left = await any_house.everything()
    assert {row["id"] for row in left["archived_tasks"]} == {tasks[phase].id, job.tasks["alone"]}
    assert await purges(any_house, dict.fromkeys(KEPT, timedelta(0))).purge() == 0


async def test_live_tasks_stay(any_house: House) -> None:
    await any_house.held("held", payload=TEXT)
    await any_house.submit(queue="ready", payload=TEXT)
    await any_house.submit(queue="parked", payload=TEXT, delay=HOUR)
    await any_house.rows("UPDATE tasks SET update_time = update_time - interval '9 years'")
    before = await any_house.everything()

    assert await purges(any_house, SHORTEST).purge() == 0

    assert await any_house.everything() == before


async def test_a_batch_has_no_more_than_it_may_and_takes_what_ended_first(any_house: House) -> None:
    ages = [9, 12, 8, 11, 10]
    tasks = {age: await ended_task(any_house, Phase.COMPLETED, age * DAY) for age in ages}
    ended = EndedTasks(any_house.database, Phase.COMPLETED, KEPT[Phase.COMPLETED])
    for batch, number, left in [(2, 2, {8, 9, 10}), (2, 2, {8}), (2, 1, set()), (2, 0, set())]:
        assert await ended.purge(batch) == number
        stored = await any_house.everything()
        assert {row["id"] for row in stored["archived_tasks"]} == {tasks[age].id for age in left}
        assert {row["id"] for row in stored["payloads"]} == {tasks[age].id for age in left}


async def test_tasks_that_ended_at_the_same_time_all_go(any_house: House) -> None:
    tasks = await any_house.submit(7, queue="q")
    for task in tasks:
        await any_house.endings.cancel(task.id, Match())
    await set_back(any_house, [task.id for task in tasks], 9 * DAY)
    assert len({row["update_time"] for row in (await any_house.everything())["archived_tasks"]}) == 1
    ended = EndedTasks(any_house.database, Phase.CANCELED, KEPT[Phase.CANCELED])
    assert [await ended.purge(3) for _ in range(3)] == [3, 3, 1]
    assert await traces(any_house, [task.id for task in tasks]) == {}


async def test_listing_goes_on_where_tasks_have_gone(any_house: House) -> None:
    old = [await ended_task(any_house, Phase.COMPLETED, 8 * DAY) for _ in range(3)]
    new = [await ended_task(any_house, Phase.COMPLETED, 6 * DAY) for _ in range(2)]
    archived = Filter(archived=True)
    first = await any_house.reading.page(archived, Place(), 2, Include())
    assert [entry.task.id for entry in first.entries] == [task.id for task in old[:2]]

    await purges(any_house).purge()

    assert first.following
    rest = await any_house.reading.page(archived, first.following, 9, Include())
    assert [entry.task.id for entry in rest.entries] == [task.id for task in new]


# Jobs -------------------------------------------------------------------------


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED])
async def test_a_job_goes_at_once_by_its_own_outcome(any_house: House, status: JobStatus) -> None:
    phase = Phase(status)
    jobs = [await new_job(any_house, CHAIN) for _ in range(2)]
    for job in jobs:
        await end(any_house, job.tasks["a"], Phase.COMPLETED)
        await end(any_house, job.tasks["b"], phase)
        if phase is Phase.COMPLETED:
            await end(any_house, job.tasks["c"], phase)
    # Tasks that have ended otherwise than their job are kept as long as it is.
    due, kept = jobs
    await end_job(any_house, due, KEPT[phase] + HOUR, status)
    await end_job(any_house, kept, KEPT[phase] - HOUR, status)
    await set_back(any_house, kept.tasks.values(), 99 * DAY)
    before = await traces(any_house, [kept.id, *kept.tasks.values()])
    assert before.keys() >= {"jobs", "archived_tasks", "payloads", "results", "task_dependencies"}

    assert await purges(any_house).purge() == 1

    assert await traces(any_house, [due.id, *due.tasks.values()]) == {}
    assert await traces(any_house, [kept.id, *kept.tasks.values()]) == before


async def test_nothing_of_an_unfinished_job_goes_however_old_it_is(any_house: House) -> None:
    """S20: a child that is delayed past its parent's time still runs, and can read the parent's result."""
    job = await new_job(any_house, CHAIN)
    await any_house.rows("UPDATE tasks SET start_delay = interval '1 microsecond' WHERE id = $1", job.tasks["b"])
    await end(any_house, job.tasks["a"], Phase.COMPLETED)
    await follow(any_house, job)
    await set_back(any_house, job.tasks.values(), 99 * DAY)

    assert await purges(any_house, SHORTEST).purge() == 0

    assert await any_house.clocks.unpark() == 1
    assert await any_house.reading.content(job.tasks["a"], "result") == TEXT
    await end(any_house, job.tasks["b"], Phase.COMPLETED)
    await follow(any_house, job)
    assert await purges(any_house, SHORTEST).purge() == 0
    assert await any_house.reading.content(job.tasks["a"], "result") == TEXT

    await end(any_house, job.tasks["c"], Phase.COMPLETED)
    assert await purges(any_house, SHORTEST).purge() == 0  # nobody has stored yet that it has ended
    await follow(any_house, job)
    assert await purges(any_house, SHORTEST).purge() == 1
    assert await traces(any_house, [job.id, *job.tasks.values()]) == {}


async def test_the_stored_status_is_not_trusted(any_house: House) -> None:
    """It could lag behind a revival, and so could the time at which the job has ended."""
    job = await new_job(any_house, {"a": []})
    await end(any_house, job.tasks["a"], Phase.FAILED)
    await end_job(any_house, job, 99 * DAY, JobStatus.FAILED)
    [stored] = (await any_house.everything())["jobs"]
    await any_house.revivals.revive(job.tasks["a"])
    assert await purges(any_house).purge() == 0
    lag = "UPDATE jobs SET status = 'failed', end_time = $2, update_time = $3 WHERE id = $1"

    await any_house.rows(lag, job.id, stored["end_time"], stored["update_time"])
    assert await purges(any_house).purge() == 1  # which is looked at
    assert (await traces(any_house, [job.tasks["a"]])).keys() == {"tasks", "payloads", "task_runs"}

    await end(any_house, job.tasks["a"], Phase.COMPLETED)
    await any_house.rows(lag, job.id, stored["end_time"], stored["update_time"])
    assert await purges(any_house).purge() == 1
    assert (await traces(any_house, [job.id, job.tasks["a"]])).keys() == {
        "archived_tasks", "jobs", "payloads", "results", "task_runs"
    }  # fmt: skip


async def test_a_job_that_was_revived_and_failed_again_is_kept_from_then_on(any_house: House) -> None:
    job = await new_job(any_house, {"a": []})
    await end(any_house, job.tasks["a"], Phase.FAILED)
    await end_job(any_house, job, 99 * DAY, JobStatus.FAILED)
    await any_house.revivals.revive(job.tasks["a"])
    await end(any_house, job.tasks["a"], Phase.FAILED)
    await follow(any_house, job)

    assert await purges(any_house).purge() == 0
    # Nor if its end were known as the first one.
    await any_house.rows("UPDATE jobs SET end_time = end_time - interval '99 days' WHERE id = $1", job.id)
    assert await purges(any_house).purge() == 0

    assert (await traces(any_house, [job.id]))["jobs"] == 1


async def test_large_jobs_go_alone_and_small_ones_together(
    any_house: House, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 3)
    monkeypatch.setattr(module, "STEP", 2)
    sizes = [2, 1, 7, 1, 1]
    jobs = [await new_job(any_house, {f"{n} {task}": [] for task in range(size)}) for n, size in enumerate(sizes)]
    for age, job in zip(range(20, 10, -1), jobs, strict=False):
        for task_id in job.tasks.values():
            await end(any_house, task_id, Phase.CANCELED)
        await end_job(any_house, job, age * DAY, JobStatus.CANCELED)
    store = CountingDatabase(empty_database_url, isolation=any_house.database.isolation)
    ended = EndedJobs(store, Phase.CANCELED, KEPT[Phase.CANCELED])
    assert [await ended.purge(4), await ended.purge(4)] == [4, 1]
    await store.close()
    assert sum(statement == "COMMIT" for statement in store.log) == 4
    assert sum("DELETE FROM archived_tasks" in statement for statement in store.log) == 2 + 4 + 1 + 1
    assert {table: rows for table, rows in (await any_house.everything()).items() if rows} == {}


async def test_jobs_whose_status_lags_hold_up_no_others(any_house: House) -> None:
    for age in (30, 20, 10):
        job = await new_job(any_house, {f"{age}": []})
        await end(any_house, job.tasks[f"{age}"], Phase.CANCELED)
        await end_job(any_house, job, age * DAY, JobStatus.CANCELED)
        if age > 10:
            await any_house.rows("UPDATE archived_tasks SET phase = 'failed' WHERE job_id = $1", job.id)
    ended = EndedJobs(any_house.database, Phase.CANCELED, KEPT[Phase.CANCELED])
    assert [await ended.purge(1) for _ in range(4)] == [1, 1, 1, 0]
    assert len((await any_house.everything())["jobs"]) == 2


async def test_a_reader_sees_a_job_whole_or_not_at_all(house: House, empty_database_url: str) -> None:
    """Reading a job takes several statements: it may be purged before each of them."""

    class Purging(CountingDatabase):
        async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
            if len(self.log) == at:
                assert await purges(house).purge() == 1
            return await super().around(connection, query, run)

    for at in range(4):
        job = await new_job(house, CHAIN)
        await end(house, job.tasks["a"], Phase.FAILED)
        await end_job(house, job, 99 * DAY, JobStatus.FAILED)
        store = Purging(empty_database_url, isolation=house.database.isolation)
        try:
            graph = await House(store).jobs.get(job.id)
            assert (len(graph.tasks), len(graph.edges)) == (3, 2)
            assert at == 3
        except NotFound:
            assert at < 3
        await store.close()
        assert (await house.everything())["jobs"] == [] or at == 3


# Lost connections -------------------------------------------------------------


async def test_a_lost_connection_leaves_nothing_by_halves(
    house: House, empty_database_url: str, subtests: pytest.Subtests
) -> None:
    async def prepare() -> list[object]:
        task = await ended_task(house, Phase.COMPLETED, 9 * DAY)
        job = await new_job(house, CHAIN)
        for name in CHAIN:
            await end(house, job.tasks[name], Phase.COMPLETED)
        await end_job(house, job, 9 * DAY)
        return [task.id, job.id, *job.tasks.values()]

    async def purge(death: Death, at: int) -> DyingDatabase:
        store = DyingDatabase(empty_database_url, death, at, isolation=house.database.isolation, pool_size=1)
        await Retention(of_ended(store, {Phase.COMPLETED: 7 * DAY})).purge()
        await store.close()
        return store

    await prepare()
    undisturbed = await purge(Death.BEFORE, NEVER)
    assert len(undisturbed.log) == 8  # the tasks; the candidates; BEGIN, take, check, tasks, job, COMMIT
    for at, statement in enumerate(undisturbed.log):
        for death in (Death.BEFORE, Death.AFTER):
            with subtests.test(statement=statement[:40], at=at, death=death):
                await prepare()
                assert (await purge(death, at)).has_died
                assert {table: rows for table, rows in (await house.everything()).items() if rows} == {}
