"""Conflicts that the database itself answers with, on statements of every kind."""

import asyncio

import pytest

from corndog.domain.errors import Code, Conflict, Unavailable
from corndog.domain.listing import Filter, Include, Place
from corndog.domain.task import Match, Phase
from corndog.hints.hints import Hints
from corndog.store.engine import Database
from tests.faults import ConflictingDatabase
from tests.store.house import TEXT, House, held_match, unheld_match
from tests.store.writes import WRITES, trial


@pytest.mark.parametrize("name", WRITES)
async def test_every_write_gets_through(database: Database, empty_database_url: str, name: str) -> None:
    expected = await trial(name, House(database), House(database), "undisturbed")
    # A transaction of ten statements would hardly ever get through if each failed as often as one by itself may.
    share = 0.1 if "job" in name or "parent" in name else 0.35
    store = ConflictingDatabase(empty_database_url, share=share, seed=name, isolation=database.isolation, pool_size=1)
    try:
        rounds = 0
        while rounds < 2 or store.injected < 2:
            assert await trial(name, House(database), House(store), f"round {rounds}") == expected
            rounds += 1
    finally:
        await store.close()


async def test_every_read_gets_through(database: Database, empty_database_url: str) -> None:
    sound = House(database)
    task = await sound.held("q", payload=TEXT)
    store = ConflictingDatabase(empty_database_url, share=0.5, isolation=database.isolation, pool_size=1)
    house = House(store)
    try:
        for _ in range(6):
            assert (await house.reading.get(task.id, Include(payload=True))).task == task
            assert await house.reading.content(task.id, "payload") == TEXT
            page = await house.reading.page(Filter(queue="q"), Place(), 1, Include())
            assert [entry.task for entry in page.entries] == [task]
            assert await house.reading.counts() == await house.reading.counts("q") == [("q", "submitted-working", 1)]
            assert await house.reading.overdue() is None
    finally:
        await store.close()
    assert store.injected


async def test_refusals_are_the_same(database: Database, empty_database_url: str) -> None:
    sound = House(database)
    task = await sound.held("q")
    store = ConflictingDatabase(empty_database_url, share=0.5, isolation=database.isolation, pool_size=1)
    house = House(store)
    try:
        for _ in range(6):
            with pytest.raises(Conflict) as refusal:
                await house.endings.complete(task.id, Match(delivery=7), TEXT, [])
            assert refusal.value.code is Code.STALE_DELIVERY
    finally:
        await store.close()


async def test_a_crowd_with_a_fifth_of_all_statements_failing(
    database: Database, empty_database_url: str, hints: Hints, strategy: str
) -> None:
    store = ConflictingDatabase(empty_database_url, seed=strategy, isolation=database.isolation, pool_size=16)
    house = House(store, hints=hints)
    deliveries: list[tuple[object, int]] = []

    async def work(name: str) -> None:
        for _ in range(3):
            await house.submit(queue="q", payload=TEXT)
            for entry in await house.claim("q", strategy=strategy, worker_id=name):
                deliveries.append((entry.task.id, entry.task.delivery))
                await house.endings.complete(entry.task.id, held_match(entry.task), TEXT, [])

    try:
        await asyncio.gather(*(work(f"worker {number}") for number in range(32)))
        while entries := await house.claim("q", count=10, strategy=strategy):
            for entry in entries:
                deliveries.append((entry.task.id, entry.task.delivery))
                await house.endings.complete(entry.task.id, held_match(entry.task), TEXT, [])
    finally:
        await store.close()
    assert store.injected > store.statements * 0.1
    assert len(deliveries) == len(set(deliveries)) == 96
    stored = await House(database).everything()
    assert [len(stored[table]) for table in ("tasks", "archived_tasks", "results")] == [0, 96, 96]
    assert {row["phase"] for row in stored["archived_tasks"]} == {Phase.COMPLETED.value}


async def test_conflicts_without_end_are_answered_in_time(database: Database, empty_database_url: str) -> None:
    store = ConflictingDatabase(empty_database_url, share=1, isolation=database.isolation, retry_deadline=0.5)
    house = House(store)
    [task] = await House(database).submit(queue="q")
    try:
        for write in (
            house.submit(queue="q"),
            house.claim("q"),
            house.endings.complete(task.id, unheld_match(task), TEXT, []),
            house.clocks.unpark(),
        ):
            with pytest.raises(Unavailable):
                await asyncio.wait_for(write, 10)
    finally:
        await store.close()
    assert (await House(database).reading.get(task.id, Include())).task == task
