"""Two writes of one job at once, the second beginning wherever the first may be: as if one had come after the other.

The first is halted after each of its statements in turn, and goes on once the second waits for it, or is through.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.domain.errors import CorndogError
from corndog.domain.jobs import Member, NewJob, OnParentFailure
from corndog.domain.task import Failure, Match, NewTask, RetryPolicy
from corndog.service.writes import Written
from corndog.store.engine import Connection, Database
from corndog.store.reading import now
from tests.deadlocks import FUTURE
from tests.faults import FaultyDatabase, plain_url
from tests.job_rules import broken_rules
from tests.store.house import TEXT, House
from tests.store.test_races import until_one_waits

LONG = "CORNDOG_TEST_LONG"
"""Where it is set, all points are tried at which the first write may be, not only each ninth."""

HELD = Match(delivery=1)
LAST = Failure(error="e", retryable=False)
Ids = dict[str, UUID]
Act = Callable[[House, UUID, Ids, str], Awaitable[Any]]

ACTS: dict[str, Act] = {
    "complete a": lambda h, _, t, __: h.endings.complete(t["a"], HELD, TEXT, []),
    "complete b": lambda h, _, t, __: h.endings.complete(t["b"], HELD, TEXT, []),
    "fail a": lambda h, _, t, __: h.endings.fail(t["a"], HELD, LAST),
    "fail b": lambda h, _, t, __: h.endings.fail(t["b"], HELD, LAST),
    "retry a": lambda h, _, t, __: h.endings.fail(t["a"], HELD, Failure(error="e")),
    "release b": lambda h, _, t, __: h.tasks.release(t["b"], HELD, None),
    "cancel a": lambda h, _, t, __: h.endings.cancel(t["a"], Match()),
    "cancel child": lambda h, _, t, __: h.endings.cancel(t["c"], Match()),
    "cancel runner": lambda h, _, t, __: h.endings.cancel(t["r"], Match()),
    "cancel job": lambda h, j, _, __: h.jobs.cancel(j),
    "revive x": lambda h, _, t, __: h.revivals.revive(t["x"]),
    "revive ended child": lambda h, _, t, __: h.revivals.revive(t["e"]),
    "revive job": lambda h, j, _, __: h.jobs.revive(j),
    "sweep": lambda h, _, __, q: h.clocks.clean_up(FUTURE, q),
}
PASSING_OVER = {"sweep"}
"""What leaves alone what it would have to wait for, and is more than one transaction: it ends first, then sweeps."""


async def bury(house: House, _job_id: UUID, _ids: Ids, queue: str) -> None:
    """Do the first half of a sweep."""
    await house.clocks._bury(FUTURE, await house.database.run(now), queue)


async def prepare(house: House, queue: str) -> tuple[UUID, Ids]:
    """Make a job: `a` and `b` are held, and swept for good resp. for now; `x` has failed; `e` was canceled."""

    def member(name: str, *parents: str, runs: bool = False, dies: bool = False) -> Member:
        new = NewTask(queue=queue, policy=RetryPolicy(max_lost=1 if dies else None))
        policy = OnParentFailure.RUN if runs else OnParentFailure.CANCEL
        return Member(name=name, new=new, depends_on=parents, on_parent_failure=policy)

    made = await house.jobs.submit(
        NewJob(
            members=[
                member("a", dies=True), member("b"), member("x"), member("c", "a", "b"), member("d", "c"),
                member("r", "a", "x", "c", runs=True), member("s", "r"), member("y", "x", "b"), member("e", "a", "b"),
            ]
        )
    )  # fmt: skip
    ids = dict(made.task_ids)
    await house.claim(queue, count=3)
    await house.endings.fail(ids["x"], HELD, LAST)
    await house.endings.cancel(ids["e"], Match())
    return made.id, ids


async def attempt(act: Act, house: House, job_id: UUID, ids: Ids, queue: str) -> object:
    try:
        answer = await act(house, job_id, ids, queue)
    except CorndogError as error:
        return type(error).__name__, error.code
    return answer.replayed if isinstance(answer, Written) else None


async def state_of(house: House, job_id: UUID) -> object:
    """Tell all that counts of a job."""
    await house.statuses.follow()
    graph = await house.jobs.get(job_id)
    names = {task.id: task.name for task in graph.tasks}
    runs = await house.rows(
        "SELECT task_id, delivery, outcome FROM task_runs WHERE task_id = ANY($1::uuid[]) ORDER BY 1, 2", list(names)
    )
    tasks = {
        task.name: (
            *(task.phase, task.current_state, task.waiting_on, task.delivery, task.attempt, task.lost),
            *(task.canceled_by, task.last_error, task.held_by),
        )
        for task in graph.tasks
    }
    return (
        graph.job.status,
        tasks,
        [(names[edge.child_id], names[edge.parent_id], edge.done) for edge in graph.edges],
        [(names[task_id], *rest) for task_id, *rest in runs],
    )


class Halting(FaultyDatabase):
    """Halts after the n-th statement, be it in a transaction or not."""

    def __init__(self, url: str, point: int, **options: Any) -> None:  # noqa: ANN401
        super().__init__(url, **options)
        self._left = point
        self.has_halted = asyncio.Event()
        self.may_go = asyncio.Event()

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        answer = await run()
        self._left -= 1
        if self._left == 0:
            self.has_halted.set()
            await self.may_go.wait()
        return answer


async def race(
    url: str, database: Database, point: int, first: str, second: str, observer: "asyncpg.Connection[asyncpg.Record]"
) -> tuple[bool, object]:
    """Run two writes of a new job at once; tells whether the first was halted, and what came of it."""
    sound, halting = House(database), Halting(url, point, isolation=database.isolation)
    queue = f"{first} | {second} {point}"
    job_id, ids = await prepare(sound, queue)
    leading = asyncio.create_task(attempt(ACTS[first], House(halting), job_id, ids, queue))
    halted = asyncio.create_task(halting.has_halted.wait())
    await asyncio.wait([leading, halted], return_when=asyncio.FIRST_COMPLETED)
    following = asyncio.create_task(attempt(ACTS[second], sound, job_id, ids, queue))

    async def waits() -> bool:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return following.done() or bool(await observer.fetchval(waiting))

    poll = AsyncRetrying(
        retry=retry_if_result(lambda is_done: not is_done), wait=wait_fixed(0.002), stop=stop_after_delay(20)
    )
    await poll(waits)
    halting.may_go.set()
    async with asyncio.timeout(30):
        answers = [await leading, await following]
    was_halted = halting.has_halted.is_set()
    halted.cancel()
    await halting.close()
    return was_halted, (answers, await state_of(sound, job_id))


async def in_turn(database: Database, *order: str) -> tuple[dict[str, object], object]:
    house = House(database)
    queue = ", ".join(order)
    job_id, ids = await prepare(house, queue)
    acts = ACTS | {"bury": bury}
    answers = {name: await attempt(acts[name], house, job_id, ids, queue) for name in order}
    return answers, await state_of(house, job_id)


@pytest.mark.parametrize("first", ACTS)
async def test_one_of_two_writes_comes_after_the_other(
    database: Database, empty_database_url: str, first: str, subtests: pytest.Subtests
) -> None:
    observer = await asyncpg.connect(plain_url(empty_database_url))
    stride = 1 if os.environ.get(LONG) else 9
    for offset, second in enumerate(name for name in ACTS if name != first):
        orders = [await in_turn(database, first, second), await in_turn(database, second, first)]
        serial = [([answers[first], answers[second]], state) for answers, state in orders]
        if first in PASSING_OVER or second in PASSING_OVER:
            other = second if first in PASSING_OVER else first
            for order in ([other], ["bury", other], ["bury", other, "sweep"]):
                answers, state = await in_turn(database, *order)
                serial.append(([answers.get(first), answers.get(second)], state))
        point, is_within = 1 + offset % stride, True
        while is_within:
            is_within, raced = await race(empty_database_url, database, point, first, second, observer)
            with subtests.test(second=second, point=point):
                assert raced in serial
                assert await broken_rules(observer) == {}
            point += stride
    await observer.close()


async def test_a_status_that_others_change_meanwhile_is_looked_at_again(house: House, empty_database_url: str) -> None:
    """Two servers follow a job: the one that saw the end comes second to one that didn't, and must not forget it."""
    made = await house.jobs.submit(NewJob(members=[Member(name="a", new=NewTask(queue="q"))]))
    await house.endings.complete(made.task_ids["a"], Match(current_state="submitted"), None, [])
    other = await asyncpg.connect(plain_url(empty_database_url))
    async with other.transaction():
        await other.execute("UPDATE jobs SET status = 'running', update_time = statement_timestamp()")
        following = asyncio.create_task(house.statuses.follow())
        await until_one_waits(empty_database_url)
    await following
    await other.close()

    await house.statuses.follow()

    [job] = await house.rows("SELECT status, end_time FROM jobs")
    assert job["status"] == "completed"
    assert job["end_time"] is not None


async def test_no_end_is_stored_of_a_job_that_was_revived_meanwhile(house: House, empty_database_url: str) -> None:
    """It would stay: only unfinished jobs are healed."""
    made = await house.jobs.submit(NewJob(members=[Member(name="a", new=NewTask(queue="q"))]))
    await house.endings.cancel(made.task_ids["a"], Match())
    halting = Halting(empty_database_url, point=8, isolation=house.database.isolation)
    reviving = asyncio.create_task(House(halting).revivals.revive(made.task_ids["a"]))
    await halting.has_halted.wait()
    following = asyncio.create_task(house.statuses.follow())
    await asyncio.wait(
        [following, asyncio.create_task(until_one_waits(empty_database_url))], return_when="FIRST_COMPLETED"
    )
    halting.may_go.set()
    await asyncio.gather(reviving, following)
    await halting.close()

    [job] = await house.rows("SELECT status, end_time FROM jobs")
    assert (job["status"], job["end_time"]) == ("pending", None)
