"""Counts are exact whatever races: writes, folds, reads, corrections, and connections that die."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from corndog.domain.errors import Conflict
from corndog.domain.task import Change, NewTask
from corndog.service import counts as service
from corndog.store import counts, reading
from corndog.store import tasks as store
from corndog.store.engine import Connection, Database
from corndog.store.statements import load
from tests.faults import Death, DyingDatabase, plain_url
from tests.store.house import House, held_match, unheld_match
from tests.store.plans import explain
from tests.store.test_races import until_one_waits

AT_ONCE = timedelta(0)
"""How long the longest transaction takes where there is none."""

WRONG = f"""
    WITH told AS ({load("counts")}),
    truth AS (SELECT queue, current_state, count(*)::int8 FROM tasks GROUP BY queue, current_state)
    (SELECT 'told', * FROM (SELECT * FROM told EXCEPT SELECT * FROM truth) AS more)
    UNION ALL
    (SELECT 'true', * FROM (SELECT * FROM truth EXCEPT SELECT * FROM told) AS less)
"""
"""What a read tells that is not true, and what is true and not told, in one snapshot."""


async def fold(house: House, batch: int = 5000, *, everywhere: bool = False) -> int:
    return await house.database.run(lambda c: counts.fold(c, batch, everywhere=everywhere))


async def raise_floor(house: House, longest: timedelta = AT_ONCE) -> None:
    await house.database.run(lambda c: counts.raise_floor(c, longest))


async def deltas(house: House) -> list[tuple[str, str, int]]:
    found = await house.rows("SELECT queue, current_state, tasks FROM count_deltas ORDER BY 1, 2, 3")
    return [(row[0], row[1], row[2]) for row in found]


# What a statement writes ----------------------------------------------------------


async def test_a_group_writes_a_row_for_each_queue_and_state(any_house: House) -> None:
    news = [NewTask(queue=queue, current_state=state) for queue in ("p", "q") for state in ("a", "b") for _ in range(9)]
    await any_house.database.run(lambda c: store.submit(c, [store.Submission(uuid4(), new) for new in news]))
    assert await deltas(any_house) == [("p", "a", 9), ("p", "b", 9), ("q", "a", 9), ("q", "b", 9)]
    await fold(any_house)
    await any_house.claim(["p", "q"], current_state="a", count=18)
    assert await deltas(any_house) == [("p", "a", -9), ("p", "a-working", 9), ("q", "a", -9), ("q", "a-working", 9)]


async def test_what_changes_no_number_writes_nothing(any_house: House) -> None:
    [task] = await any_house.submit(queue="q", auto_target_state="submitted")
    await fold(any_house)
    [entry] = await any_house.claim("q")
    assert entry.task.current_state == "submitted"
    await any_house.tasks.update(task.id, held_match(entry.task), Change())
    assert await deltas(any_house) == []


async def test_a_rerun_that_writes_nothing_adds_nothing(any_house: House) -> None:
    items = [store.Submission(uuid4(), NewTask(queue="q"))]
    for _ in range(2):
        await any_house.database.run(lambda c: store.submit(c, items))
    assert await deltas(any_house) == [("q", "submitted", 1)]


# Folding --------------------------------------------------------------------------


async def test_counts_are_exact_while_writers_and_folders_race(any_house: House) -> None:
    """Two folders, and one who drops zeros, beside six writers: each read is exact in its snapshot."""
    ends = asyncio.Event()
    folded = looked = 0

    async def work(number: int) -> None:
        queue = f"q{number % 2}"
        for turn in range(12):
            await any_house.submit(3, queue=queue)
            for entry in await any_house.claim(queue, count=2, worker_id="w"):
                with suppress(Conflict):
                    if turn % 3:
                        await any_house.endings.complete(entry.task.id, held_match(entry.task), None, [])
                    else:
                        await any_house.tasks.release(entry.task.id, held_match(entry.task), None)

    async def keep_folding(batch: int) -> None:
        nonlocal folded
        while not ends.is_set():
            folded += await fold(any_house, batch)
            await any_house.database.run(counts.drop_zeros)

    async def keep_reading() -> None:
        nonlocal looked
        while not ends.is_set():
            assert await any_house.rows(WRONG) == []
            looked += 1

    others = [asyncio.create_task(each) for each in (keep_folding(7), keep_folding(1000), keep_reading())]
    try:
        await asyncio.gather(*(work(number) for number in range(6)))
    finally:
        ends.set()
        await asyncio.gather(*others)
    assert min(folded, looked) > 1
    await fold(any_house)
    assert await deltas(any_house) == []
    assert await any_house.database.run(counts.wrong) == []


async def test_what_one_folder_leaves_another_takes(house: House, empty_database_url: str) -> None:
    """A fold that comes to nothing loses none, and one that waits for it doubles none."""
    await house.submit(3, queue="q")
    for commits in (False, True):
        first = await asyncpg.connect(plain_url(empty_database_url))
        transaction = first.transaction()
        await transaction.start()
        assert await counts.fold(first, 100) == 1
        second = asyncio.create_task(fold(house))
        await until_one_waits(empty_database_url)
        await (transaction.commit() if commits else transaction.rollback())
        assert await second == (0 if commits else 1)
        assert await house.reading.counts() == [("q", "submitted", 3 if not commits else 6)]
        await first.close()
        await house.submit(3, queue="q")


async def test_a_zero_that_is_added_to_is_not_dropped(house: House, empty_database_url: str) -> None:
    [task] = await house.submit(queue="q")
    await fold(house)
    await house.endings.complete(task.id, unheld_match(task), None, [])
    await fold(house)
    await house.submit(queue="q")
    other = await asyncpg.connect(plain_url(empty_database_url))
    async with other.transaction():
        assert await counts.fold(other, 100) == 1
        await asyncio.wait_for(house.database.run(counts.drop_zeros), 10)
    assert await house.reading.counts() == [("q", "submitted", 1)]
    await other.close()


async def test_a_total_is_added_to_after_its_zero_was_dropped(house: House, empty_database_url: str) -> None:
    await house.rows("INSERT INTO queue_state_counts VALUES ('q', 'submitted', 0)")
    await house.submit(queue="q")
    other = await asyncpg.connect(plain_url(empty_database_url))
    async with other.transaction():
        await counts.drop_zeros(other)
        folding = asyncio.create_task(fold(house))
        await until_one_waits(empty_database_url)
    assert await folding == 1
    assert await house.reading.counts() == [("q", "submitted", 1)]
    await other.close()


@pytest.mark.parametrize("death", Death)
async def test_a_killed_fold_loses_and_doubles_nothing(
    database: Database, empty_database_url: str, death: Death
) -> None:
    house = House(database)
    await house.submit(5, queue="q")
    dying = DyingDatabase(empty_database_url, death, isolation=database.isolation, pool_size=1)
    await fold(House(dying))
    assert dying.has_died
    await dying.close()
    assert await house.reading.counts() == [("q", "submitted", 5)]
    await fold(house)
    assert [tuple(row) for row in await house.rows("SELECT * FROM queue_state_counts")] == [("q", "submitted", 5)]


# The floor ------------------------------------------------------------------------


async def test_the_floor_waits_for_what_is_not_folded(any_house: House) -> None:
    await any_house.submit(queue="q")
    await raise_floor(any_house)
    assert await any_house.rows("SELECT FROM count_floor") == []
    await fold(any_house)
    await raise_floor(any_house)
    [before] = await any_house.rows("SELECT write_time FROM count_floor")
    await any_house.submit(queue="q")
    assert await any_house.reading.counts() == [("q", "submitted", 2)]
    await raise_floor(any_house)
    assert await any_house.rows("SELECT write_time FROM count_floor") == [before]
    await raise_floor(any_house, timedelta(days=1))
    assert await any_house.rows("SELECT write_time FROM count_floor") == [before]


async def test_a_straggler_below_the_floor_is_found(house: House, empty_database_url: str) -> None:
    """It commits later than any transaction may; the fold that looks everywhere mends what reads have missed."""
    late = await asyncpg.connect(plain_url(empty_database_url))
    async with late.transaction():
        await store.submit(late, [store.Submission(uuid4(), NewTask(queue="q"))])
        await raise_floor(house)
    await late.close()
    assert await house.reading.counts() == []
    assert await fold(house) == 0
    assert await fold(house, everywhere=True) == 1
    assert await house.reading.counts() == [("q", "submitted", 1)]


async def test_a_read_passes_by_what_an_old_transaction_keeps(house: House, empty_database_url: str) -> None:
    old = await asyncpg.connect(plain_url(empty_database_url))
    async with old.transaction(isolation="repeatable_read"):
        await old.fetchval("SELECT count(*) FROM tasks")
        await house.rows(
            "INSERT INTO count_deltas (queue, current_state, tasks) SELECT 'q', 's', 1 FROM generate_series(1, 20000)"
        )
        while await fold(house):
            pass
        before = await buffers(house, reading.counts)
        await raise_floor(house)
        after = await buffers(house, reading.counts)
    await old.close()
    assert after < 40 < before


async def buffers(house: House, read: Callable[[Connection], Awaitable[object]]) -> int:
    return (await house.database.run(lambda c: explain(c, read, is_generic=True))).buffers


# The loop -------------------------------------------------------------------------


async def test_the_loop_folds_much_at_once_and_little_later(any_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    time = 0.0
    monkeypatch.setattr(service, "monotonic", lambda: time)
    monkeypatch.setattr(service, "BATCH", 3)
    await any_house.submit(queue="q")
    assert await any_house.counts.fold() == 1  # the first
    for _ in range(2):
        await any_house.submit(queue="q")
    assert await any_house.counts.fold() == 0
    await any_house.submit(queue="q")
    await any_house.submit(queue="q")
    assert await any_house.counts.fold() == 3
    time += service.PATIENCE
    assert await any_house.counts.fold() == 1
    [task, *others] = [entry.task for entry in await any_house.claim("q", count=9)]
    for each in (task, *others):
        await any_house.endings.complete(each.id, held_match(each), None, [])
    time += service.PATIENCE
    assert await any_house.counts.fold() >= 3
    zeros = "SELECT count(*) FROM queue_state_counts WHERE tasks = 0"
    assert (await any_house.rows(zeros))[0][0] == 2
    time += service.TIDYING
    await any_house.counts.fold()
    assert (await any_house.rows(zeros))[0][0] == 0


# Corrections ----------------------------------------------------------------------


async def test_a_recount_corrects_what_was_written_without_counting(any_house: House) -> None:
    await any_house.submit(3, queue="q")
    await any_house.submit(2, queue="gone")
    await fold(any_house)
    await any_house.rows("DELETE FROM tasks WHERE queue = 'gone'")
    await any_house.rows("UPDATE tasks SET current_state = 'moved'")
    # More were taken out than there were put in: no count is shown below zero.
    await any_house.rows("INSERT INTO count_deltas (queue, current_state, tasks) VALUES ('gone', 'submitted', -5)")
    assert await any_house.reading.counts() == [("q", "submitted", 3)]
    corrections = [(each.queue, each.current_state, each.tasks) for each in await any_house.counts.recount()]
    assert corrections == [("gone", "submitted", 3), ("q", "moved", 3), ("q", "submitted", -3)]
    assert await any_house.reading.counts() == await any_house.true_counts() == [("q", "moved", 3)]
    assert await any_house.counts.recount() == []


async def test_recounts_at_once_correct_once(any_house: House) -> None:
    await any_house.submit(3, queue="q")
    await any_house.rows("DELETE FROM count_deltas")
    found = await asyncio.gather(*(any_house.counts.recount() for _ in range(4)))
    assert sorted(map(len, found)) == [0, 0, 0, 1]
    assert await any_house.reading.counts() == [("q", "submitted", 3)]


async def test_a_recount_among_writers_and_folders(any_house: House) -> None:
    await any_house.submit(5, queue="q")
    await any_house.rows("DELETE FROM count_deltas")

    async def write() -> None:
        for _ in range(15):
            await any_house.submit(2, queue="q")
            await any_house.claim("q", count=1)
            await fold(any_house)

    await asyncio.gather(write(), write(), any_house.counts.recount(), any_house.counts.recount())
    assert await any_house.rows(WRONG) == []


@pytest.mark.parametrize(
    ("at", "death"),
    # BEGIN and COMMIT, around the three statements of a recount, have nothing to wait for.
    [(at, death) for at in range(5) for death in Death if death is not Death.DURING or 0 < at < 4],
)
async def test_a_recount_whose_connection_dies_corrects_once(
    database: Database, empty_database_url: str, at: int, death: Death
) -> None:
    house = House(database)
    await house.submit(5, queue="q")
    await house.rows("DELETE FROM count_deltas")
    dying = DyingDatabase(empty_database_url, death, at, isolation=database.isolation, pool_size=1)
    await House(dying).counts.recount()
    assert dying.has_died
    await dying.close()
    assert await house.reading.counts() == [("q", "submitted", 5)]
