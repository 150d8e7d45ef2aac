"""The statements about workers: who is listed, with what they hold, who is to drain, and who is forgotten."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

from corndog.domain.task import NewTask, Task
from corndog.domain.workers import HOLDS_MAX, Worker, WorkerFilter
from corndog.store import workers as store
from corndog.store.engine import Database
from tests.store.conformance.bench import Bench
from tests.store.house import HOUR

LONG_AGO = timedelta(days=30)
EVERYBODY = WorkerFilter()


async def heard(bench: Bench, *names: str, metadata: str | None = None) -> dict[str, bool]:
    return await bench.do(lambda c: store.keep(c, dict.fromkeys(names, metadata)))


async def listed(
    bench: Bench, wanted: WorkerFilter = EVERYBODY, after: str = "", limit: int = 100
) -> dict[str, Worker]:
    return {one.id: one for one in await bench.do(lambda c: store.page(c, wanted, after, limit))}


async def named(bench: Bench, after: str = "", limit: int = 100) -> list[str]:
    return await bench.do(lambda c: store.names(c, after, limit))


async def hold(bench: Bench, worker_id: str, number: int = 1, **asked: Any) -> list[Task]:  # noqa: ANN401
    tasks = await bench.put(*[NewTask(queue=f"q-{worker_id}", **asked)] * number)
    return [entry.task for entry in await bench.take(*(task.id for task in tasks), token=uuid4(), worker_id=worker_id)]


async def age(bench: Bench, by: timedelta, *names: str) -> None:
    """Have workers not been seen for so long, neither by a heartbeat nor by a claim."""
    await bench.rows("UPDATE workers SET last_seen = last_seen - $2::interval WHERE id = ANY($1)", names, by)
    await bench.rows("UPDATE tasks SET claim_time = claim_time - $2::interval WHERE held_by = ANY($1)", names, by)


async def test_who_sends_heartbeats_or_holds_something_is_listed_by_name(bench: Bench) -> None:
    await heard(bench, "b", "d", "Ü/ ")
    await hold(bench, "c", 2)
    await hold(bench, "b")
    await hold(bench, "", 3)
    await hold(bench, "e{}")

    found = await listed(bench)

    held = {name: worker.held for name, worker in found.items()}
    assert held == {"b": 1, "c": 2, "d": 0, "e{}": 1, "Ü/ ": 0}
    assert list(found) == await named(bench)


async def test_pages_go_on_after_a_name(bench: Bench) -> None:
    names = [f"w{number}" for number in range(7)]
    await heard(bench, *names[::2])
    for name in names[1::2]:
        await hold(bench, name, 2)

    for wanted in (EVERYBODY, WorkerFilter(active_since=HOUR)):
        pages: list[list[str]] = []
        while page := list(await listed(bench, wanted, pages[-1][-1] if pages else "", 3)):
            pages.append(page)
        assert pages == [names[:3], names[3:6], names[6:]]
    assert await named(bench, "w1", 2) == ["w2", "w3"]


async def test_what_a_worker_holds_is_shown_the_oldest_first(bench: Bench) -> None:
    [first] = await hold(bench, "w", kind="k")
    [second] = await hold(bench, "w", current_state="s")
    await bench.rows("UPDATE tasks SET due_time = NULL WHERE id = $1", second.id)
    await bench.rows("UPDATE tasks SET due_time = claim_time WHERE id = $1", first.id)

    worker = (await listed(bench))["w"]

    assert [one.id for one in worker.holds] == [first.id, second.id]
    assert [(one.kind, one.current_state) for one in worker.holds] == [("k", "submitted-working"), (None, "s-working")]
    assert [(one.delivery, one.queue) for one in worker.holds] == [(1, "q-w")] * 2
    assert [(one.due_time, one.is_overdue) for one in worker.holds] == [(first.claim_time, True), (None, False)]
    assert (worker.first_seen, worker.last_seen) == (first.claim_time, second.claim_time)


async def test_of_many_holds_the_first_are_shown_and_all_are_counted(bench: Bench) -> None:
    await hold(bench, "w", HOLDS_MAX + 5)
    worker = (await listed(bench))["w"]
    assert (worker.held, len(worker.holds)) == (HOLDS_MAX + 5, HOLDS_MAX)


async def test_only_a_heartbeat_or_a_claim_makes_a_worker_active(bench: Bench) -> None:
    await heard(bench, "new", "old", "claims", "gone")
    for name in ("old", "claims", "nameless"):
        await hold(bench, name)
    await age(bench, HOUR, "old", "claims", "nameless", "gone")
    await hold(bench, "claims")

    everybody = await listed(bench)
    active = {name for name, worker in everybody.items() if worker.is_active}

    assert set(everybody) == {"new", "old", "claims", "nameless", "gone"}
    assert active == {"new", "claims"}
    assert set(await listed(bench, WorkerFilter(active_since=HOUR / 2))) == active
    assert set(await listed(bench, WorkerFilter(active_since=2 * HOUR))) == set(everybody)
    assert all(worker.is_active for worker in (await listed(bench, WorkerFilter(active_since=2 * HOUR))).values())


async def test_a_heartbeat_keeps_what_it_does_not_say(bench: Bench) -> None:
    assert await heard(bench, "w", metadata='{"a": 1}') == {"w": False}
    before = (await listed(bench))["w"]
    await bench.do(lambda c: store.drain(c, ["w"], drains=True))

    assert await heard(bench, "w", "v") == {"w": True, "v": False}

    after = (await listed(bench))["w"]
    assert (after.metadata, after.drains, after.first_seen) == ('{"a": 1}', True, before.first_seen)
    assert after.last_seen > before.last_seen
    await heard(bench, "w", metadata="{}")
    assert (await listed(bench))["w"].metadata == "{}"


async def test_drain_marks_who_is_known_until_it_is_taken_back(bench: Bench) -> None:
    await heard(bench, "beats")
    [held] = await hold(bench, "holds")

    assert await bench.do(lambda c: store.drain(c, ["beats", "holds", "unknown"], drains=True)) == {"beats", "holds"}

    found = await listed(bench)
    assert {name: worker.drains for name, worker in found.items()} == {"beats": True, "holds": True}
    assert found["holds"].last_seen == held.claim_time
    assert await bench.do(lambda c: store.drain(c, ["holds"], drains=False)) == {"holds"}
    assert await heard(bench, "beats", "holds") == {"beats": True, "holds": False}


async def test_only_who_was_not_seen_and_holds_nothing_is_forgotten(bench: Bench) -> None:
    await heard(bench, "new", "holds", *(f"old{number}" for number in range(5)))
    await hold(bench, "holds")
    await age(bench, LONG_AGO, "holds", *(f"old{number}" for number in range(5)))
    await bench.do(lambda c: store.drain(c, ["old4"], drains=True))

    assert [await bench.do(lambda c: store.purge(c, HOUR, 3)) for _ in range(3)] == [3, 2, 0]

    assert await named(bench) == ["holds", "new"]
    assert [row[0] for row in await bench.rows("SELECT id FROM workers ORDER BY id")] == ["holds", "new"]


async def test_many_that_write_the_same_rows_at_once_don_t_block_each_other(any_database: Database) -> None:
    bench = Bench(any_database)
    names = [f"w{number}" for number in range(200)]
    await heard(bench, *names)
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = None if any_database.is_cockroach else await bench.rows(deadlocks)

    async def write(number: int) -> None:
        turned = names[:: 1 if number % 2 else -1]
        if number % 3:
            assert len(await heard(bench, *turned)) == 200
        else:
            assert len(await bench.do(lambda c: store.drain(c, turned, drains=True))) == 200

    await asyncio.gather(*(write(number) for number in range(24)))

    assert {worker.drains for worker in (await listed(bench, limit=200)).values()} == {True}
    if before is not None:
        assert await bench.rows(deadlocks) == before
