"""Groups over the real store: whatever happens to a group, each of its requests gets the answer that is its own."""

import asyncio
import operator
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import asyncpg
import pytest
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.domain.errors import Code, Conflict, CorndogError, Unavailable
from corndog.domain.jobs import Member, NewJob
from corndog.domain.task import Change, Claim, Content, Failure, Match, NewTask, Phase, Task
from corndog.hints.hints import Hints
from corndog.service.endings import Completing
from corndog.service.writes import Written
from corndog.store.engine import Connection, Database
from corndog.store.statements import load
from tests.faults import Death, DyingDatabase, FaultyDatabase
from tests.store.house import HOUR, TEXT, House, held_match, ids, unheld_match

CLIENTS = 64
NUL = "\0"
"""No text for PostgreSQL: the API refuses it, and if it did not, the statement would fail."""

_T = TypeVar("_T")


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    await AsyncRetrying(retry=retry_if_result(operator.not_), wait=wait_fixed(0.01), stop=stop_after_delay(30))(
        condition
    )


async def together(*writes: Awaitable[Any]) -> list[Any]:
    """Write at the same time; give what each is told."""
    return await asyncio.gather(*writes, return_exceptions=True)


async def several(house: House, number: int, **asked: Any) -> list[Task]:  # noqa: ANN401
    """Submit tasks and claim them."""
    await house.submit(number, queue="q", **asked)
    return [entry.task for entry in await house.claim("q", count=number, worker_id="w")]


# A bad item -------------------------------------------------------------------


async def test_a_bad_completion_fails_alone(house: House) -> None:
    tasks = await several(house, 6)
    bad = Content(b"x", NUL, is_json=False)
    results = [TEXT, TEXT, bad, TEXT, bad, TEXT]
    for next_tasks in ([], [NewTask(queue="next")]):
        done = await together(
            *(house.endings.complete(t.id, held_match(t), r, next_tasks) for t, r in zip(tasks, results, strict=True))
        )

        assert [isinstance(one, asyncpg.DataError) for one in done] == [r is bad for r in results]
        assert all(isinstance(one, Written) for one, r in zip(done, results, strict=True) if r is not bad)
        await house.submit(queue="q")
        tasks = [entry.task for entry in await house.claim("q")] + await several(house, 5)

    many = await house.endings.complete_many(
        [Completing(t.id, held_match(t), r, []) for t, r in zip(tasks, results, strict=True)]
    )
    assert [isinstance(one, asyncpg.DataError) for one in many] == [r is bad for r in results]
    with pytest.raises(asyncpg.DataError):
        await house.endings.complete_all_or_none(
            [Completing(t.id, held_match(t), r, []) for t, r in zip(tasks[2:4], results[2:4], strict=True)]
        )
    assert await house.reading.counts() == await house.true_counts()


async def test_bad_failures_updates_and_submits_fail_alone(house: House) -> None:
    tasks = await several(house, 3)
    failed = await together(
        *(
            house.endings.fail(t.id, held_match(t), Failure(error=e))
            for t, e in zip(tasks, ["a", NUL, "b"], strict=True)
        )
    )
    assert [type(one) for one in failed] == [Written, type(failed[1]), Written]
    assert isinstance(failed[1], asyncpg.DataError)

    tasks = await several(house, 3)
    changes = [Change(new_state=state) for state in ("n", NUL, "n")]
    moved = await together(*(house.tasks.update(t.id, held_match(t), c) for t, c in zip(tasks, changes, strict=True)))
    assert [isinstance(one, Written) for one in moved] == [True, False, True]
    assert isinstance(moved[1], asyncpg.DataError)

    news = [NewTask(queue="s", kind=kind) for kind in ("1", "2", NUL, "3")]
    submitted = await together(*map(house.submits.submit, news))
    assert [isinstance(one, Task) for one in submitted] == [True, True, False, True]
    [first, second, third] = await house.claim("s", count=9)
    assert [entry.task.kind for entry in (first, second, third)] == ["1", "2", "3"]
    assert await house.reading.counts() == await house.true_counts()


async def test_a_bad_claim_fails_alone_and_loses_no_task(house: House, strategy: str) -> None:
    tasks = await house.submit(4, queue="q")
    await house.claim("empty", strategy=strategy)

    done = await together(*(house.claim("q", strategy=strategy, worker_id=w) for w in ("a", NUL, "b", "c")))

    assert [isinstance(one, list) for one in done] == [True, False, True, True]
    [left] = await house.claim("q", count=4, strategy=strategy)
    claimed = [one[0].task.id for one in (done[0], *done[2:])] + [left.task.id]
    assert sorted(claimed) == sorted(ids(tasks))
    assert left.task.delivery == 1


# Who is written with whom -----------------------------------------------------


async def test_a_child_is_not_taken_for_completed_with_its_parent(house: House) -> None:
    parent, child = (Member(name=n, new=NewTask(queue="q"), depends_on=d) for n, d in (("p", ()), ("c", ("p",))))
    made = await house.jobs.submit(NewJob(members=[parent, child]))
    [held] = [entry.task for entry in await house.claim("q")]
    next_tasks = [NewTask(queue="next")]

    done = await together(
        house.endings.complete(held.id, held_match(held), TEXT, next_tasks),
        house.endings.complete(made.task_ids["c"], Match(current_state="submitted-blocked"), TEXT, next_tasks),
    )

    assert isinstance(done[0], Written)
    assert isinstance(done[1], Conflict)
    [opened] = await house.claim("q")
    assert opened.task.id == made.task_ids["c"]
    assert len(await house.claim("next", count=9)) == 1


async def test_many_completions_at_once_are_few_statements(house: House, empty_database_url: str) -> None:
    counted: list[str] = []

    class Counting(FaultyDatabase):
        async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
            counted.append(query)
            return await run()

    tasks = await several(house, 500)
    store = Counting(empty_database_url, isolation=house.database.isolation)
    try:
        done = await House(store).endings.complete_many([Completing(t.id, held_match(t), TEXT, []) for t in tasks])
    finally:
        await store.close()

    assert [one.task.id for one in done if isinstance(one, Written)] == ids(tasks)
    assert counted.count(load("end")) == len(counted)
    assert len(counted) <= 7


async def test_one_update_of_a_group_may_have_happened(
    house: House, database: Database, empty_database_url: str, hints: Hints
) -> None:
    first, second, third = await house.submit(3, queue="q")

    async def claim_one() -> None:
        [entry] = await house.claim("q", current_state="n")
        assert entry.task.id == first.id

    dying = DyingDatabase(empty_database_url, Death.AFTER, meanwhile=claim_one, isolation=database.isolation)
    other = House(dying, hints=hints)
    try:
        done = await together(
            *(other.tasks.update(t.id, unheld_match(t), Change(new_state="n")) for t in (first, second)),
            other.tasks.update(third.id, Match(current_state="x"), Change(new_state="n")),
        )
        assert dying.has_died
    finally:
        await dying.close()

    assert isinstance(done[0], Unavailable)
    assert "may have happened" in str(done[0])
    assert isinstance(done[1], Written)
    assert (done[1].task.current_state, done[1].task.phase) == ("n", Phase.READY)
    # Whether this one was refused by the lost run or by the next, can't be told, either.
    assert isinstance(done[2], CorndogError)


# Those who leave --------------------------------------------------------------


class Gated(FaultyDatabase):
    """A database whose claims wait at a gate, before or after they are done."""

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401
        super().__init__(url, **options)
        self.gate = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)
        self.is_after = False

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        if query not in {load("claim_by_key"), load("claim_scan")}:
            return await run()
        done = await run() if self.is_after else None
        self.arrived.release()
        await self.gate.wait()
        return await run() if done is None else done


@pytest.fixture
async def gated(database: Database, empty_database_url: str) -> AsyncIterator[Gated]:
    store = Gated(empty_database_url, isolation=database.isolation)
    yield store
    await store.close()


@pytest.mark.parametrize("is_after", [False, True], ids=["before the claim", "after the claim"])
async def test_one_who_leaves_while_the_claim_is_under_way_holds_nothing(
    house: House, gated: Gated, hints: Hints, strategy: str, *, is_after: bool
) -> None:
    gated.is_after = is_after
    other = House(gated, hints=hints)
    tasks = await house.submit(3, queue="q")
    leaving = asyncio.create_task(other.claim("q", count=2, strategy=strategy, worker_id="gone"))
    await gated.arrived.acquire()

    leaving.cancel()
    assert isinstance((await together(leaving))[0], asyncio.CancelledError)
    gated.gate.set()

    async def all_are_ready() -> bool:
        rows = await house.rows("SELECT phase, delivery FROM tasks")
        return [row["phase"] for row in rows] == ["ready"] * 3 and sum(row["delivery"] for row in rows) == 2

    await until(all_are_ready)
    async with asyncio.timeout(10):
        claimed = await house.claim("q", count=9, strategy=strategy)
    assert ids(claimed) == ids(tasks)
    assert await house.reading.counts() == await house.true_counts()


async def test_one_who_leaves_before_its_group_begins_claims_nothing(
    house: House, gated: Gated, hints: Hints, strategy: str
) -> None:
    other = House(gated, hints=hints)
    tasks = await house.submit(4, queue="q")
    # Two groups are under way, and two claims wait for theirs.
    asked = []
    for _ in range(2):
        asked.append(asyncio.create_task(other.claim("q", strategy=strategy)))
        await gated.arrived.acquire()
    asked += [asyncio.create_task(other.claim("q", strategy=strategy)) for _ in range(2)]
    for _ in range(3):
        await house.reading.counts()  # they come as far as they can

    asked[3].cancel()
    await together(asked[3])
    gated.gate.set()
    claimed = [entry.task for done in await asyncio.gather(*asked[:3]) for entry in done]

    assert len(claimed) == 3
    assert {task.delivery for task in claimed} == {1}
    [left] = await house.claim("q", count=9, strategy=strategy)
    assert left.task.delivery == 1
    assert {left.task.id, *ids(claimed)} == set(ids(tasks))


# A crowd ----------------------------------------------------------------------


async def test_a_crowd_does_everything_to_the_same_tasks(house: House, strategy: str) -> None:
    """Of all that is tried on a delivery, one thing happens, and all others hear what did."""
    tasks = await house.submit(12, queue="q", payload=TEXT)
    ended: Counter[object] = Counter()
    holds: Counter[tuple[object, int]] = Counter()
    told: Counter[Code] = Counter()

    async def attempt(random: Random, task: Task) -> None:
        writes: list[Callable[[], Awaitable[Written]]] = [
            lambda: house.endings.complete(task.id, held_match(task), TEXT, []),
            lambda: house.endings.complete(task.id, held_match(task), None, [NewTask(queue="next")]),
            lambda: house.endings.fail(task.id, held_match(task), Failure(error="e", retry_in=0 * HOUR)),
            lambda: house.tasks.release(task.id, held_match(task), None),
            lambda: house.tasks.update(task.id, held_match(task), Change(new_state="submitted")),
            lambda: house.tasks.update(task.id, held_match(task), Change(payload=TEXT)),
            lambda: house.endings.cancel(task.id, held_match(task)),
        ]
        [written] = await together(random.choice(writes)())
        if isinstance(written, Conflict):
            told[written.code] += 1
        elif not written.replayed and written.task.phase in {Phase.COMPLETED, Phase.FAILED, Phase.CANCELED}:
            ended[task.id] += 1

    async def client(number: int) -> None:
        random = Random(number)
        while len(ended) < len(tasks):
            claim = Claim(queues=("q",), count=2, worker_id=str(number))
            for entry in await house.claims[strategy].claim(claim, wait=1):
                holds[entry.task.id, entry.task.delivery] += 1
                await asyncio.gather(*(attempt(random, entry.task) for _ in range(3)))
                if entry.task.id not in ended:
                    await together(house.tasks.release(entry.task.id, held_match(entry.task), None))

    async with asyncio.timeout(50):
        await asyncio.gather(*(client(number) for number in range(CLIENTS)))

    assert told.keys() <= {Code.STALE_DELIVERY, Code.ENDED, Code.OTHER_REQUEST}
    assert set(ended.values()) == {1}
    assert set(ended) == set(ids(tasks))
    assert set(holds.values()) == {1}
    stored = await house.everything()
    assert {row["id"] for row in stored["archived_tasks"]} == set(ids(tasks))
    assert {row["queue"] for row in stored["tasks"]} <= {"next"}
    assert await house.reading.counts() == await house.true_counts()
