"""Try to make transactions over the same jobs deadlock: `python -m tests.deadlocks SECONDS [ISOLATION]`.

All that ends, revives and sweeps tasks of jobs is done at once, over several pools. The claim: transactions take rows
in order of their ids, and parents have lower ids than their children, so that none waits for another in a circle.
"""

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
from sqlalchemy import make_url

from corndog.domain.errors import CorndogError, Unavailable
from corndog.domain.jobs import Member, NewJob, OnParentFailure
from corndog.domain.task import Failure, Jitter, Match, NewTask, RetryPolicy, Task
from corndog.store.engine import Connection, Database, Isolation
from corndog.store.migrate import upgrade
from corndog.store.sqlstates import Meaning, meaning
from tests.faults import plain_url
from tests.job_rules import STORED_STATUS, broken_rules
from tests.services import running_services
from tests.store.house import TEXT, House

_T = TypeVar("_T")

FUTURE = datetime(2100, 1, 1, tzinfo=UTC)
POOLS = 3
WORKERS = 12
JOBS = 6
TASKS = 40
QUEUE = "storm"


class Counting(Database):
    """Counts what it has to do again, by SQLSTATE."""

    def __init__(self, url: str, counts: Counter[str], isolation: Isolation) -> None:
        super().__init__(url, isolation=isolation, retry_deadline=60)
        self._counts = counts

    async def _once(self, work: Callable[[Connection], Awaitable[_T]]) -> _T:
        try:
            return await super()._once(work)
        except Exception as error:
            if meaning(error) is Meaning.CONFLICT:
                self._counts[f"rerun after {getattr(error, 'sqlstate', type(error).__name__)}"] += 1
            raise


def random_job(chance: random.Random, size: int = TASKS, queue: str = QUEUE) -> NewJob:
    """Make a graph in which each task depends on some of the last dozen before it."""
    policy = RetryPolicy(max_attempts=3, backoff=timedelta(0), jitter=Jitter.NONE, max_lost=2)
    new = NewTask(queue=queue, policy=policy)
    members = []
    for place in range(size):
        before = range(max(0, place - 12), place)
        parents = chance.sample(before, min(len(before), chance.choice((0, 1, 1, 2, 2, 3, 6))))
        members.append(
            Member(
                name=f"t{place}",
                new=new,
                depends_on=[f"t{parent}" for parent in parents],
                on_parent_failure=OnParentFailure.RUN if chance.random() < 0.2 else OnParentFailure.CANCEL,
            )
        )
    return NewJob(members=members)


class Storm:
    """Jobs under fire; `counts` tells what was done, and how often it was refused."""

    def __init__(self, houses: list[House], seed: int, counts: Counter[str]) -> None:
        self._houses = houses
        self._chance = random.Random(seed)
        self._counts = counts
        self._jobs: list[tuple[UUID, list[UUID]]] = []

    async def run(self, seconds: float) -> None:
        """Do everything at once for so long, then bring the stored statuses up to date."""
        for _ in range(JOBS):
            await self._submit()
        until = time.monotonic() + seconds
        acts: list[Callable[[House], Awaitable[object]]] = [
            *[self._work] * WORKERS,
            *[self._cancel] * 2, *[self._revive] * 4, self._cancel_job, *[self._revive_job] * 2,
            *[self._sweep] * 2, self._unpark, self._heal, self._replace,
        ]  # fmt: skip

        async def repeat(place: int, act: Callable[[House], Awaitable[object]]) -> None:
            while time.monotonic() < until:
                await self._try(act, self._houses[place % len(self._houses)])

        await asyncio.gather(*(repeat(place, act) for place, act in enumerate(acts)))
        await self._houses[0].statuses.heal()
        for house in self._houses:
            await house.statuses.follow()

    async def _try(self, act: Callable[[House], Awaitable[object]], house: House) -> None:
        name = act.__name__.strip("_")
        try:
            self._counts[name] += 1
            await act(house)
        except Unavailable:
            self._counts[f"{name}: unavailable"] += 1
        except CorndogError:
            self._counts[f"{name}: refused"] += 1

    async def _submit(self) -> None:
        made = await self._houses[0].jobs.submit(random_job(self._chance))
        self._jobs.append((made.id, list(made.task_ids.values())))

    async def _replace(self, house: House) -> None:
        """Put a new job in the place of one that is completed, or nearly."""
        await asyncio.sleep(0.2)
        place = self._chance.randrange(len(self._jobs))
        graph = await house.jobs.get(self._jobs[place][0])
        if sum(task.phase == "completed" for task in graph.tasks) > len(graph.tasks) * 0.8:
            del self._jobs[place]
            await self._submit()
            self._counts["jobs finished"] += 1

    async def _work(self, house: House) -> None:
        entries = await house.claim(QUEUE, count=self._chance.choice((1, 1, 2, 5)))
        if not entries:
            await asyncio.sleep(0.01)
        for entry in entries:
            with suppress(CorndogError):
                await self._end(house, entry.task)

    async def _end(self, house: House, task: Task) -> None:
        match = Match(delivery=task.delivery)
        ends: dict[str, Callable[[], Awaitable[Any]]] = {
            "completed": lambda: house.endings.complete(task.id, match, TEXT, []),
            "retried": lambda: house.endings.fail(task.id, match, Failure(error="retried")),
            "failed": lambda: house.endings.fail(task.id, match, Failure(error="failed", retryable=False)),
            "released": lambda: house.tasks.release(task.id, match, None),
            "left": lambda: asyncio.sleep(0),
        }
        [name] = self._chance.choices(list(ends), (60, 12, 8, 8, 12))
        await ends[name]()
        self._counts[f"ended: {name}"] += 1

    def _some_task(self) -> UUID:
        return self._chance.choice(self._chance.choice(self._jobs)[1])

    async def _cancel(self, house: House) -> None:
        await asyncio.sleep(0.02)
        await house.endings.cancel(self._some_task(), Match())

    async def _revive(self, house: House) -> None:
        await house.revivals.revive(self._some_task())

    async def _cancel_job(self, house: House) -> None:
        await asyncio.sleep(0.1)
        await house.jobs.cancel(self._chance.choice(self._jobs)[0])

    async def _revive_job(self, house: House) -> None:
        await asyncio.sleep(0.01)
        await house.jobs.revive(self._chance.choice(self._jobs)[0])

    async def _sweep(self, house: House) -> None:
        self._counts["swept"] += await house.clocks.clean_up(FUTURE, QUEUE)
        await asyncio.sleep(0.02)

    async def _unpark(self, house: House) -> None:
        await house.clocks.unpark()
        await asyncio.sleep(0.02)

    async def _heal(self, house: House) -> None:
        await house.statuses.heal()
        await house.statuses.follow()
        await asyncio.sleep(0.05)


async def deadlocks(url: str) -> int:
    """Tell how many deadlocks the database has broken."""
    connection = await asyncpg.connect(plain_url(url))
    try:
        await connection.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
        number: int = await connection.fetchval(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        return number
    finally:
        await connection.close()


async def storm(url: str, seconds: float, isolation: Isolation, seed: int) -> tuple[Counter[str], dict[str, list[str]]]:
    """Run a storm; gives what was counted, and the rules that are broken afterwards."""
    counts: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        houses = [House(Counting(url, counts, isolation)) for _ in range(POOLS)]
        for house in houses:
            stack.push_async_callback(house.database.close)
        before = await deadlocks(url)
        await Storm(houses, seed, counts).run(seconds)
        connection = await asyncpg.connect(plain_url(url))
        stack.push_async_callback(connection.close)
        broken = await broken_rules(connection)
        if late := await connection.fetch(STORED_STATUS):
            broken["has the status that its tasks say"] = [str(row[0]) for row in late]
    # A session that is gone has told all that it counted.
    await asyncio.sleep(1)
    counts["deadlocks"] = await deadlocks(url) - before
    return counts, broken


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.deadlocks", description=__doc__)
    parser.add_argument("seconds", type=float)
    parser.add_argument("isolation", nargs="?", default="read committed", choices=["read committed", "serializable"])
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with running_services() as services:
        url = make_url(services.database_admin_url).set(drivername="postgresql+asyncpg")
        upgrade(database_url := url.render_as_string(hide_password=False))
        counts, broken = asyncio.run(storm(database_url, wanted.seconds, wanted.isolation, wanted.seed))
    for name, number in sorted(counts.items()):
        print(f"{number:8} {number / wanted.seconds:9.1f}/s  {name}")  # noqa: T201
    print("broken rules:", broken or "none")  # noqa: T201


if __name__ == "__main__":
    main()
