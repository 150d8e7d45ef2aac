"""Purging against revival: either a task is gone with all that it left, or it lives and has all of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from corndog.domain.errors import NotFound
from corndog.domain.jobs import JobStatus
from corndog.domain.listing import Filter, Include, Place
from corndog.domain.task import Phase
from corndog.service import retention as module
from corndog.service.retention import Retention, of_ended
from corndog.store.engine import Connection, Database
from tests.faults import COMMIT, FaultyDatabase
from tests.store.house import House
from tests.store.jobs import DAY, Job, end, end_job, ended_task, new_job, traces
from tests.store.test_races import Halting, until_one_waits

KEPT = {Phase.FAILED: 7 * DAY, Phase.CANCELED: 7 * DAY}
CHAIN: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"]}
LIVE = {"tasks": 1, "payloads": 1, "task_runs": 2}


class HaltingCommits(FaultyDatabase):
    """Does a transaction and waits with its commit."""

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401
        super().__init__(url, **options)
        self.is_done = asyncio.Event()
        self.may_commit = asyncio.Event()

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        if query == COMMIT:
            self.is_done.set()
            await self.may_commit.wait()
        return await run()


def retention(database: Database) -> Retention:
    return Retention(of_ended(database, KEPT))


@asynccontextmanager
async def halted(
    store: Halting | HaltingCommits, act: Callable[[], Awaitable[object]]
) -> AsyncIterator["asyncio.Task[object]"]:
    """Have something done, but for its commit; commit it with the block at the latest."""

    async def run() -> object:
        return await act()

    leading = asyncio.create_task(run())
    await asyncio.wait_for(store.is_done.wait(), 20)
    try:
        yield leading
    finally:
        store.may_commit.set()
        await leading
        await store.close()


async def failed_job(house: House, graph: dict[str, list[str]]) -> Job:
    """Make a job that failed long ago, by its first task."""
    job = await new_job(house, graph)
    await end(house, job.tasks["a"], Phase.FAILED)
    await end_job(house, job, 9 * DAY, JobStatus.FAILED)
    return job


async def test_a_revival_that_comes_second_finds_nothing(house: House, empty_database_url: str) -> None:
    task = await ended_task(house, Phase.FAILED, 9 * DAY)
    store = Halting(empty_database_url, isolation=house.database.isolation)
    async with halted(store, retention(store).purge):
        following = asyncio.create_task(house.revivals.revive(task.id))
        await until_one_waits(empty_database_url)
        store.may_commit.set()
        with pytest.raises(NotFound):
            await following
    assert await traces(house, [task.id]) == {}


async def test_a_purge_that_comes_second_takes_nothing(house: House, empty_database_url: str) -> None:
    task = await ended_task(house, Phase.FAILED, 9 * DAY)
    store = Halting(empty_database_url, isolation=house.database.isolation)
    async with halted(store, lambda: House(store).revivals.revive(task.id)):
        assert await asyncio.wait_for(retention(house.database).purge(), 20) == 0
    assert await traces(house, [task.id]) == LIVE
    assert await retention(house.database).purge() == 0
    assert (await house.claim(task.queue))[0].payload is not None


async def test_a_revival_in_a_job_that_comes_second_finds_nothing(house: House, empty_database_url: str) -> None:
    job = await failed_job(house, CHAIN)
    before = await traces(house, [job.id, *job.tasks.values()])
    store = HaltingCommits(empty_database_url, isolation=house.database.isolation)
    async with halted(store, retention(store).purge):
        following = asyncio.create_task(house.revivals.revive(job.tasks["a"]))
        await until_one_waits(empty_database_url)
        # Meanwhile nobody sees a part of it.
        assert await traces(house, [job.id, *job.tasks.values()]) == before
        page = await house.reading.page(Filter(archived=True, job_id=job.id), Place(), 9, Include())
        assert len(page.entries) == 3
        store.may_commit.set()
        with pytest.raises(NotFound):
            await following
    assert await traces(house, [job.id, *job.tasks.values()]) == {}


async def test_a_purge_that_comes_second_takes_nothing_of_a_job(house: House, empty_database_url: str) -> None:
    job, other = await failed_job(house, CHAIN), await failed_job(house, {"a": []})
    store = HaltingCommits(empty_database_url, isolation=house.database.isolation)
    async with halted(store, lambda: House(store).revivals.revive(job.tasks["a"])):
        assert await asyncio.wait_for(retention(house.database).purge(), 20) == 2
        assert await traces(house, [other.id, *other.tasks.values()]) == {}
    # Edges are counted with the job, too: the revival keeps them.
    assert await traces(house, job.tasks.values()) == {
        "tasks": 3, "payloads": 3, "task_runs": 1, "task_dependencies": 2
    }  # fmt: skip
    assert await retention(house.database).purge() == 0


@pytest.mark.parametrize("round_number", range(3))
async def test_a_crowd_of_both(house: House, monkeypatch: pytest.MonkeyPatch, round_number: int) -> None:
    monkeypatch.setattr(module, "FIRST_BATCH", round_number + 1)
    monkeypatch.setattr(module, "BATCH", 4)
    monkeypatch.setattr(module, "STEP", 2)
    tasks = [(await ended_task(house, Phase.FAILED, 9 * DAY)).id for _ in range(24)]
    jobs = [await failed_job(house, CHAIN) for _ in range(8)]
    roots = [job.tasks["a"] for job in jobs]
    revived: set[UUID] = set()

    async def revive(ids: Sequence[UUID]) -> None:
        for task_id in ids:
            try:
                await house.revivals.revive(task_id)
            except NotFound:
                continue
            revived.add(task_id)

    # The purges begin with what ended first; the revivals meet them half-way.
    await asyncio.gather(
        *(revive([*tasks[start:], *roots][::-1][start::3]) for start in range(3)),
        *(retention(house.database).purge() for _ in range(3)),
    )

    assert revived
    for task_id in tasks:
        assert await traces(house, [task_id]) == (LIVE if task_id in revived else {})
    for job in jobs:
        found = await traces(house, job.tasks.values())
        lives = {"tasks": 3, "payloads": 3, "task_runs": 1, "task_dependencies": 2}
        assert found == (lives if job.tasks["a"] in revived else {})
        assert await traces(house, [job.id]) == ({"jobs": 1, "tasks": 3} if job.tasks["a"] in revived else {})
