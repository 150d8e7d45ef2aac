"""A write that has to wait for another on the same task, and then finds it changed: as if it had come second."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.domain.errors import CorndogError
from corndog.domain.task import Change, Match, RetryPolicy, Task
from corndog.store import claims as claim_store
from corndog.store.engine import Connection, Database
from tests.faults import FaultyDatabase, plain_url
from tests.store.house import HOUR, MICROSECOND, TEXT, House, held_match, ids, unheld_match
from tests.store.writes import left, told

Act = Callable[[House, str, Task], Awaitable[Any]]

READY: dict[str, Act] = {
    "complete": lambda h, _, t: h.endings.complete(t.id, unheld_match(t), TEXT, []),
    "move": lambda h, _, t: h.tasks.update(t.id, unheld_match(t), Change(new_state="n", payload=TEXT)),
    "progress": lambda h, _, t: h.tasks.update(t.id, unheld_match(t), Change(priority=3, payload=TEXT)),
    "cancel": lambda h, _, t: h.endings.cancel(t.id, Match()),
    "claim by key": lambda h, q, _: h.claim(q, strategy="by_heads", worker_id="other"),
}
HELD: dict[str, Act] = {
    "complete": lambda h, _, t: h.endings.complete(t.id, held_match(t), TEXT, []),
    "complete otherwise": lambda h, _, t: h.endings.complete(t.id, held_match(t), None, []),
    "move": lambda h, _, t: h.tasks.update(t.id, held_match(t), Change(new_state="n", payload=TEXT)),
    "progress": lambda h, _, t: h.tasks.update(t.id, held_match(t), Change(timeout=2 * HOUR, payload=TEXT)),
    "release": lambda h, _, t: h.tasks.release(t.id, held_match(t), None),
    "release later": lambda h, _, t: h.tasks.release(t.id, held_match(t), HOUR),
    "cancel": lambda h, _, t: h.endings.cancel(t.id, Match()),
    "sweep": lambda h, q, t: h.clocks.clean_up(t.due_time, q),
}


PASSING_OVER = {"sweep", "claim by key"}
"""What does not wait for a lock."""


class Halting(FaultyDatabase):
    """Does a statement and waits with its commit."""

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401
        super().__init__(url, **options)
        self.is_done = asyncio.Event()
        self.may_commit = asyncio.Event()

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        # A sweep's burials are a transaction already, and find nothing here.
        if not query.lstrip().startswith("WITH") or self.is_done.is_set() or connection.is_in_transaction():
            return await run()
        async with connection.transaction():
            if answer := await run():
                self.is_done.set()
                await self.may_commit.wait()
        return answer


async def prepare(house: House, queue: str, *, is_held: bool) -> Task:
    if is_held:
        return await house.held(queue, payload=TEXT, work_timeout=HOUR)
    [task] = await house.submit(queue=queue, payload=TEXT)
    return task


async def attempt(act: Act, house: House, queue: str, task: Task) -> object:
    try:
        return told(await act(house, queue, task))
    except CorndogError as error:
        return type(error), error.code, str(error)


async def until_one_waits(url: str) -> None:
    """Wait until a session of this database waits for another."""
    connection = await asyncpg.connect(plain_url(url))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    try:
        poll = AsyncRetrying(retry=retry_if_result(lambda n: n == 0), wait=wait_fixed(0.005), stop=stop_after_delay(10))
        await poll(connection.fetchval, waiting)
    finally:
        await connection.close()


@pytest.mark.parametrize("is_held", [False, True], ids=["ready", "held"])
async def test_the_second_of_two_writes_sees_the_first(
    database: Database, empty_database_url: str, is_held: bool, subtests: pytest.Subtests
) -> None:
    acts = HELD if is_held else READY
    sound = House(database)
    for first in acts:
        for second in acts.keys() - PASSING_OVER:
            with subtests.test(first=first, second=second):
                serial, raced = f"{first}, {second}", f"{first} | {second}"
                task = await prepare(sound, serial, is_held=is_held)
                expected = [await attempt(acts[name], sound, serial, task) for name in (first, second)]

                task = await prepare(sound, raced, is_held=is_held)
                halting = Halting(empty_database_url, isolation=database.isolation)
                leading = asyncio.create_task(attempt(acts[first], House(halting), raced, task))
                await halting.is_done.wait()
                following = asyncio.create_task(attempt(acts[second], sound, raced, task))
                await until_one_waits(empty_database_url)
                halting.may_commit.set()
                answers = [await leading, await following]
                await halting.close()
                assert answers == expected
                assert await left(sound, raced) == await left(sound, serial)


@asynccontextmanager
async def locked(url: str, task: Task) -> AsyncIterator[None]:
    """Have another session hold the lock on a task, as a write under way does."""
    connection = await asyncpg.connect(plain_url(url))
    try:
        async with connection.transaction():
            await connection.execute("SELECT FROM tasks WHERE id = $1 FOR UPDATE", task.id)
            yield
    finally:
        await connection.close()


@pytest.mark.parametrize("queues", [["q"], ["q", "p"]], ids=["one queue", "two queues"])
async def test_a_claim_waits_for_nobody(house: House, empty_database_url: str, queues: list[str]) -> None:
    first, second = await house.submit(2, queue="q")
    async with locked(empty_database_url, first):
        [entry] = await asyncio.wait_for(house.claim(queues), 5)
        assert entry.task.id == second.id
        assert await asyncio.wait_for(house.claim(queues), 5) == []
    [entry] = await house.claim(queues)
    assert entry.task.id == first.id


@pytest.mark.parametrize("spare", [1, claim_store.SPARE_HEADS])
async def test_a_claim_by_heads_goes_on_to_the_next(
    house: House, empty_database_url: str, spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_store, "SPARE_HEADS", spare)
    *first, last = await house.submit(8, queue="q")
    halting = Halting(empty_database_url, isolation=house.database.isolation)
    leading = asyncio.create_task(House(halting).claim("q", count=7))
    await halting.is_done.wait()
    following = await house.claim("q", strategy="by_heads")
    halting.may_commit.set()
    assert [ids(await leading), ids(following)] == [ids(first), [last.id]]
    await halting.close()


async def test_clocks_wait_for_nobody(house: House, empty_database_url: str) -> None:
    held = [await house.held(name, work_timeout=HOUR) for name in ("a", "b")]
    dead = [await house.held(name, work_timeout=HOUR, policy=RetryPolicy(max_lost=1)) for name in ("c", "d")]
    due = await house.submit(2, queue="q", delay=MICROSECOND)
    at_time = max(task.due_time for task in held + dead if task.due_time)
    async with (
        locked(empty_database_url, held[0]),
        locked(empty_database_url, dead[0]),
        locked(empty_database_url, due[0]),
    ):
        assert await asyncio.wait_for(house.clocks.clean_up(at_time), 5) == 2
        assert await asyncio.wait_for(house.clocks.unpark(), 5) == 1
    assert await house.clocks.clean_up(at_time) == 2
    assert await house.clocks.unpark() == 1
