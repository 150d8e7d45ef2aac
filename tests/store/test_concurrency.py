"""Many at once, for real: trials S1, S4, S13 and S33 of the service, the order of groups, and no deadlocks."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg
import pytest

from corndog.domain.errors import Code, Conflict
from corndog.domain.listing import Entry
from corndog.domain.task import Change, NewTask, Phase, RetryPolicy, Task
from corndog.store import tasks as store
from corndog.store.engine import Connection, Database
from corndog.store.reading import now
from tests.faults import FaultyDatabase
from tests.store.house import HOUR, TEXT, House, held_match, ids, unheld_match

_T = TypeVar("_T")


async def complete(house: House, task: Task) -> bool:
    """Complete a hold; False if it is no more."""
    try:
        await house.endings.complete(task.id, held_match(task), TEXT, [])
    except Conflict as refusal:
        if refusal.code not in {Code.STALE_DELIVERY, Code.ENDED}:
            raise
        return False
    return True


async def drain(house: House, queues: Sequence[str], strategy: str = "scan", pollers: int = 10) -> list[Entry]:
    """Claim one by one, with several pollers, until each has found nothing."""

    async def poll(name: str) -> list[Entry]:
        got: list[Entry] = []
        while entries := await house.claim(queues, strategy=strategy, worker_id=name):
            got += entries
        return got

    drained = await asyncio.gather(*(poll(f"poller {number}") for number in range(pollers)))
    return [entry for entries in drained for entry in entries]


@pytest.mark.parametrize("queues", [["q"], ["q", "p", "r"]], ids=["one queue", "three queues"])
async def test_three_claimers_of_three_tasks_get_one_each(any_house: House, strategy: str, queues: list[str]) -> None:
    """Trial S33."""
    for _ in range(15):
        for number in range(3):
            await any_house.submit(queue=queues[number % len(queues)])
        claimed = await asyncio.gather(*(any_house.claim(queues, strategy=strategy) for _ in range(3)))
        assert [len(entries) for entries in claimed] == [1, 1, 1]
        assert len({entry.task.id for [entry] in claimed}) == 3
        await asyncio.gather(*(complete(any_house, entry.task) for [entry] in claimed))


async def test_many_claimers_of_many_get_each_task_once(any_house: House, strategy: str) -> None:
    queues = ["q", "p"]
    tasks = [task for queue in queues for task in await any_house.submit(100, queue=queue)]
    entries = await drain(any_house, queues, strategy)
    assert Counter(ids(entries)) == Counter(ids(tasks))
    assert {entry.task.delivery for entry in entries} == {1}


async def test_completions_race_a_sweep(any_house: House) -> None:
    """Trial S1: what was answered to be complete stays complete, and is never handed out again."""
    house = any_house
    await house.submit(200, queue="q", work_timeout=timedelta(seconds=1))
    holds = await house.claim("q", count=200)
    later = await house.database.run(now) + HOUR
    swept = 0
    is_over = asyncio.Event()

    async def sweep() -> None:
        nonlocal swept
        while not is_over.is_set():
            swept += await house.clocks.clean_up(later)

    sweeping = asyncio.create_task(sweep())
    order = random.sample(holds, len(holds))
    answers = await asyncio.gather(*(complete(house, entry.task) for entry in order))
    is_over.set()
    await sweeping
    done = {entry.task.id for entry, is_done in zip(order, answers, strict=True) if is_done}
    again = await drain(house, ["q"])
    assert done.isdisjoint(ids(again))
    assert len(done) + len(again) == 200
    assert swept == len(again)
    assert {entry.task.lost for entry in again} <= {1}
    stored = await house.everything()
    assert {row["id"] for row in stored["archived_tasks"]} == done
    assert all(row["phase"] == Phase.COMPLETED for row in stored["archived_tasks"])


async def test_a_task_that_timed_out_is_delivered_once(any_house: House, strategy: str) -> None:
    """Trial S4."""
    house = any_house
    for _ in range(5):
        hold = await house.held("q")
        assert sum(await asyncio.gather(*(house.clocks.clean_up(hold.due_time) for _ in range(4)))) == 1
        [entry] = await drain(house, ["q"], strategy)
        assert (entry.task.id, entry.task.delivery, entry.task.lost) == (hold.id, 2, 1)
        assert not await complete(house, hold)
        assert await complete(house, entry.task)
        assert await house.reading.counts() == []


async def test_twenty_identical_completions_with_a_next_task(any_house: House) -> None:
    """Trial S13."""
    house = any_house
    for _ in range(3):
        hold = await house.held("q")
        answers = await asyncio.gather(
            *(house.endings.complete(hold.id, held_match(hold), TEXT, [NewTask(queue="n")]) for _ in range(20))
        )
        assert Counter(answer.replayed for answer in answers) == {False: 1, True: 19}
        [[next_id]] = {tuple(answer.next_task_ids) for answer in answers}
        [entry] = await house.claim("n", count=9)
        assert entry.task.id == next_id
        await complete(house, entry.task)


async def test_twenty_different_completions_of_one_delivery(any_house: House) -> None:
    hold = await any_house.held("q")
    nexts = [[NewTask(queue="n", priority=number)] for number in range(20)]
    answers = await asyncio.gather(
        *(any_house.endings.complete(hold.id, held_match(hold), TEXT, new) for new in nexts), return_exceptions=True
    )
    refusals = [answer for answer in answers if isinstance(answer, Conflict)]
    assert [refusal.code for refusal in refusals] == [Code.OTHER_REQUEST] * 19
    assert len(await any_house.claim("n", count=9)) == 1


async def test_groups_keep_their_order(any_house: House, strategy: str) -> None:
    groups = await asyncio.gather(*(any_house.submit(20, queue="q", kind=f"group {n}") for n in range(10)))
    claimed = await any_house.claim("q", count=200, strategy=strategy)
    for number, group in enumerate(groups):
        assert [entry.task.id for entry in claimed if entry.task.kind == f"group {number}"] == ids(group)


async def test_an_idle_claim_of_an_empty_queue_is_empty(any_house: House, strategy: str) -> None:
    await any_house.submit(queue="q", delay=HOUR)
    assert await asyncio.gather(*(any_house.claim(["q", "p"], strategy=strategy) for _ in range(20))) == [[]] * 20


class Watched(FaultyDatabase):
    """Writes down what the database's refusals were."""

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401
        super().__init__(url, **options)
        self.seen: Counter[str] = Counter()

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await run()
        except asyncpg.PostgresError as error:
            self.seen[error.sqlstate or ""] += 1
            raise


def expected_refusals(database: Database) -> set[str]:
    """Name what may be in a transaction's way: never a deadlock, and on PostgreSQL only what its isolation demands."""
    return {"40001"} if database.isolation == "serializable" or database.is_cockroach else set()


async def test_a_mixed_load_comes_through(any_database: Database, any_url: str) -> None:
    """Everybody writes the same few tasks in every way; nobody is refused for another reason than the rules."""
    watched = Watched(any_url, isolation=any_database.isolation, pool_size=12)
    house = House(watched)
    await house.submit(40, queue="q", policy=RetryPolicy(max_lost=50))
    draw = random.Random(7)

    async def one(number: int) -> None:
        strategy = draw.choice(["scan", "by_heads"])
        for entry in await house.claim(draw.choice(["q", ["q", "p"]]), count=draw.randint(1, 8), strategy=strategy):
            task = entry.task
            with suppress(Conflict):
                match draw.randrange(5):
                    case 0:
                        await house.tasks.update(task.id, held_match(task), Change(new_state="submitted", payload=TEXT))
                    case 1:
                        await house.tasks.update(task.id, held_match(task), Change(timeout=HOUR, payload=TEXT))
                    case 2:
                        await house.tasks.release(task.id, held_match(task), timedelta(microseconds=draw.randint(0, 1)))
                    case 3:
                        await house.endings.complete(
                            task.id, held_match(task), TEXT, [NewTask(queue="p"), NewTask(queue="q")]
                        )
                    case _:
                        await house.clocks.clean_up(task.due_time)
        if number % 5 == 0:
            await house.clocks.unpark()
            await house.reading.counts()

    try:
        await asyncio.gather(*(one(number) for number in range(150)))
    finally:
        await watched.close()
    assert watched.seen.keys() <= expected_refusals(any_database)
    stored = await House(any_database).everything()
    live, ended = ({row["id"] for row in stored[table]} for table in ("tasks", "archived_tasks"))
    assert live.isdisjoint(ended)
    assert len(live | ended) == 40 + 2 * sum(row["phase"] == Phase.COMPLETED for row in stored["archived_tasks"])
    for row in stored["tasks"]:
        assert (row["phase"] == "held") == (row["claim_time"] is not None) == (row["held_by"] is not None)
    runs = Counter(row["task_id"] for row in stored["task_runs"])
    for row in stored["tasks"] + stored["archived_tasks"]:
        assert row["delivery"] == runs[row["id"]] + (row["claim_time"] is not None)


async def test_groups_that_meet_in_another_order_do_not_deadlock(any_database: Database, any_url: str) -> None:
    watched = Watched(any_url, isolation=any_database.isolation, pool_size=8)
    house = House(watched)
    tasks = await house.submit(40, queue="q")
    draw = random.Random(7)

    async def write(number: int) -> None:
        change = Change(priority=number)
        group = [
            store.Update(id=task.id, match=unheld_match(task), change=change, request=b"r", token=uuid4())
            for task in draw.sample(tasks, len(tasks))
        ]
        assert len(await watched.run(lambda c: store.update(c, group))) == len(tasks)

    try:
        await asyncio.gather(*(write(number) for number in range(40)))
    finally:
        await watched.close()
    assert watched.seen.keys() <= expected_refusals(any_database)
    stored = await House(any_database).everything()
    assert len({row["rank"] for row in stored["tasks"]}) == 1
