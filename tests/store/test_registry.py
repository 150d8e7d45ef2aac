"""The registry costs next to nothing, and no heartbeat fails with it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

import pytest

from corndog.domain.errors import Unavailable
from corndog.domain.task import Hold, Standing
from corndog.domain.workers import WorkerFilter
from corndog.service import registry as module
from corndog.service.heartbeats import Heartbeats
from corndog.service.registry import Registry
from corndog.service.workers import Workers
from corndog.store.engine import Connection, Database
from tests.faults import CountingDatabase, Death, DyingDatabase, FaultyDatabase
from tests.store.house import House

_T = TypeVar("_T")

ALWAYS = timedelta(0)
NOWHERE = "postgresql+asyncpg://nobody@127.0.0.1:9/nothing"  # the discard port: nobody listens


@asynccontextmanager
async def fleet(
    database: Database, every: timedelta = module.EVERY, heartbeats: Heartbeats | None = None
) -> AsyncIterator[Workers]:
    registry = Registry(database, every)
    yield Workers(database, heartbeats or Heartbeats(database, None), registry)
    await registry.close()


async def registered(database: Database) -> list[str]:
    return [row[0] for row in await database.run(lambda c: c.fetch("SELECT id FROM workers ORDER BY id"))]


@pytest.fixture
async def counting(empty_database_url: str) -> AsyncIterator[CountingDatabase]:
    database = CountingDatabase(empty_database_url)
    yield database
    await database.close()


class SlowDatabase(FaultyDatabase):
    """Lets no statement begin before it is told to."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.go = asyncio.Event()
        self.begun = asyncio.Event()

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        self.begun.set()
        await self.go.wait()
        return await super().around(connection, query, run)


async def test_heartbeats_write_a_row_once_in_a_while(counting: CountingDatabase) -> None:
    async with fleet(counting) as workers:
        for _ in range(5):
            assert await workers.beat("w", None, []) == await workers.beat("", None, [])
        assert len(counting.log) == 1
    async with fleet(counting, ALWAYS) as workers:
        for _ in range(5):
            await workers.beat("w", None, [])
        assert len(counting.log) == 6


async def test_many_workers_are_written_together(counting: CountingDatabase) -> None:
    async with fleet(counting) as workers:
        await asyncio.gather(*(workers.beat(f"w{number}", None, []) for number in range(300)))
        assert len(counting.log) <= 2
    assert len(await registered(counting)) == 300


async def test_in_between_the_last_answer_counts(database: Database) -> None:
    async with fleet(database, ALWAYS) as eager, fleet(database) as calm, fleet(database) as other:
        assert not (await calm.beat("w", None, [])).drain
        await other.drain(["w"], drains=True)

        assert (await eager.beat("w", None, [])).drain
        assert not (await calm.beat("w", None, [])).drain
        assert (await other.beat("w", None, [])).drain
        assert (await other.beat("w", None, [])).drain

        await calm.drain(["w"], drains=False)
        assert not (await calm.beat("w", None, [])).drain
        assert not (await eager.beat("w", None, [])).drain
        assert (await other.beat("w", None, [])).drain


async def test_a_process_remembers_so_many_workers(counting: CountingDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KNOWN_MAX", 3)
    async with fleet(counting) as workers:
        for worker_id in ("a", "b", "c", "a", "d", "a"):
            await workers.beat(worker_id, None, [])
        assert len(counting.log) == 4
        await workers.beat("b", None, [])
        assert len(counting.log) == 5


async def test_a_heartbeat_does_not_fail_with_the_registry(house: House, caplog: pytest.LogCaptureFixture) -> None:
    task = await house.held("q")
    hold = Hold(task.id, 1)
    async with fleet(house.database, ALWAYS) as workers:
        await workers.beat("w", None, [])
        await workers.drain(["w"], drains=True)
        await house.rows("ALTER TABLE workers RENAME TO gone")
        try:
            told = [await workers.beat(worker_id, None, [hold]) for worker_id in ("w", "v")]
        finally:
            await house.rows("ALTER TABLE gone RENAME TO workers")
        assert [[beat.standing for beat in one.beats] for one in told] == [[Standing.HELD]] * 2
        assert [one.drain for one in told] == [True, False]  # the last answer counts
        assert "the registry of workers is not written" in caplog.text

        await workers.beat("v", None, [hold])
        assert await registered(house.database) == ["v", "w"]


async def test_without_the_database_redis_answers(house: House) -> None:
    assert house.hints
    task = await house.held("q")
    hold = Hold(task.id, 1)
    await house.heartbeats.beat([hold])
    away = Database(NOWHERE, retry_deadline=0.1)
    async with fleet(away, ALWAYS, Heartbeats(away, house.hints.leases)) as workers:
        for _ in range(3):
            told = await workers.beat("w", None, [hold])
            assert [beat.standing for beat in told.beats] == [Standing.HELD]
        with pytest.raises(Unavailable):
            await workers.beat("w", None, [Hold(task.id, 2)])
    await away.close()


async def test_a_heartbeat_does_not_wait_for_a_database_that_hangs(
    house: House, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert house.hints
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    hold = Hold((await house.held("q")).id, 1)
    await house.heartbeats.beat([hold])
    slow = SlowDatabase(empty_database_url)
    async with fleet(slow, ALWAYS, Heartbeats(slow, house.hints.leases)) as workers:
        for number in range(5):
            told = await workers.beat(f"w{number}", None, [hold])
            assert [beat.standing for beat in told.beats] == [Standing.HELD]
        assert await registered(house.database) == []
        slow.go.set()
        monkeypatch.setattr(module, "PATIENCE", 30)
        await workers.beat("w5", None, [hold])
        assert len(await registered(house.database)) == 6
    await slow.close()


async def test_what_is_due_meanwhile_is_bounded(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DUE_MAX", 2)
    slow = SlowDatabase(empty_database_url)
    async with fleet(slow) as workers:
        first = asyncio.create_task(workers.beat("first", None, []))
        await slow.begun.wait()
        beats = [asyncio.create_task(workers.beat(worker_id, None, [])) for worker_id in ("a", "b", "c")]
        await beats[-1]
        slow.go.set()
        await asyncio.gather(first, *beats)
        assert await registered(slow) == ["a", "b", "first"]
        await workers.beat("c", None, [])
        assert await registered(slow) == ["a", "b", "c", "first"]
    await slow.close()


async def test_the_end_does_not_wait_for_the_registry(empty_database_url: str) -> None:
    slow = SlowDatabase(empty_database_url)
    async with fleet(slow) as workers:
        beat = asyncio.create_task(workers.beat("w", None, []))
        await slow.begun.wait()
    assert not (await beat).drain
    await slow.close()


async def test_all_are_drained_however_many(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corndog.service.workers.BATCH", 3)
    async with fleet(database) as workers:
        wanted = [f"w{number}" for number in range(7)]
        await asyncio.gather(*(workers.beat(worker_id, None, []) for worker_id in wanted))

        assert (await workers.drain_all(drains=True)).marked == wanted
        assert all([(await workers.beat(worker_id, None, [])).drain for worker_id in wanted])
        drained = await workers.drain([*wanted, "unknown", "w0"], drains=False)
        assert (drained.marked, drained.unknown) == (wanted, ["unknown"])
        page = await workers.page(WorkerFilter(), "", 5)
        assert ([worker.id for worker in page.workers], page.following) == (wanted[:5], "w4")
        assert (await workers.page(WorkerFilter(), "w4", 2)).following is None


@pytest.mark.parametrize("death", Death)
async def test_a_drain_outlives_its_connection(
    empty_database_url: str, counting: CountingDatabase, death: Death
) -> None:
    dying = DyingDatabase(empty_database_url, death)
    async with fleet(counting, ALWAYS) as calm, fleet(dying) as workers:
        await calm.beat("w", None, [])
        drained = await workers.drain(["w", "unknown"], drains=True)
        assert (drained.marked, drained.unknown) == (["w"], ["unknown"])
        assert dying.has_died
        assert (await calm.beat("w", None, [])).drain
    await dying.close()
