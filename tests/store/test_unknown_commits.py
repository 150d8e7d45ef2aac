"""A write is done, its answer is lost, and others go on with the task before the write is tried again."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import TypeAlias

import pytest

from corndog.domain.errors import Code, Conflict, Unavailable
from corndog.domain.keys import Key
from corndog.domain.task import Change, Match, NewTask, Phase
from corndog.hints.hints import Hints
from corndog.store.engine import Database
from tests.faults import Death, DyingDatabase
from tests.store.house import TEXT, House, held_match, unheld_match

FUTURE = datetime(2100, 1, 1, tzinfo=UTC)

Unlucky: TypeAlias = Callable[[Callable[[], Awaitable[object]]], AbstractAsyncContextManager[House]]


@pytest.fixture
def unlucky(database: Database, empty_database_url: str, hints: Hints) -> Unlucky:
    """Give the use cases on a database that loses its first answer, while others do something."""

    @asynccontextmanager
    async def make(meanwhile: Callable[[], Awaitable[object]]) -> AsyncIterator[House]:
        dying = DyingDatabase(empty_database_url, Death.AFTER, meanwhile=meanwhile, isolation=database.isolation)
        try:
            yield House(dying, hints=hints)
            assert dying.has_died
        finally:
            await dying.close()

    return make


async def test_a_submitted_task_that_has_ended_by_then_is_not_submitted_again(house: House, unlucky: Unlucky) -> None:
    async def work_it() -> None:
        [entry] = await house.claim("q")
        await house.endings.complete(entry.task.id, held_match(entry.task), TEXT, [])

    async with unlucky(work_it) as other:
        [task] = await other.submit(queue="q", payload=TEXT)
    assert task.phase is Phase.COMPLETED
    stored = await house.everything()
    assert [len(stored[table]) for table in ("tasks", "archived_tasks", "payloads")] == [0, 1, 1]


async def test_a_submitted_task_that_is_held_by_then_is_answered_as_it_is(house: House, unlucky: Unlucky) -> None:
    async with unlucky(lambda: house.claim("q")) as other:
        [task] = await other.submit(queue="q", payload=TEXT)
    assert (task.phase, task.delivery) == (Phase.HELD, 1)
    assert len((await house.everything())["tasks"]) == 1


async def test_a_group_of_which_one_has_ended_by_then(house: House, unlucky: Unlucky) -> None:
    async def work_one() -> None:
        [entry] = await house.claim("q")
        await house.endings.cancel(entry.task.id, Match())

    async with unlucky(work_one) as other:
        tasks = await other.submit(3, queue="q")
    assert [task.phase for task in tasks] == [Phase.CANCELED, Phase.READY, Phase.READY]
    stored = await house.everything()
    assert [len(stored[table]) for table in ("tasks", "archived_tasks")] == [2, 1]


async def test_a_task_submitted_under_a_key_is_answered_as_the_original(
    house: House, database: Database, empty_database_url: str
) -> None:
    new = NewTask(queue="q", payload=TEXT)

    async def repeat_and_work() -> None:
        # The client has lost patience and asks again, and a worker ends the task meanwhile.
        assert (await house.submits.submit_once(new, Key("k", b"r"))).replayed
        [entry] = await house.claim("q")
        await house.endings.complete(entry.task.id, held_match(entry.task), TEXT, [])

    dying = DyingDatabase(empty_database_url, Death.AFTER, 0, meanwhile=repeat_and_work, isolation=database.isolation)
    try:
        submitted = await House(dying).submits.submit_once(new, Key("k", b"r"))
    finally:
        await dying.close()
    [task] = submitted.tasks
    assert task is not None
    assert (task.phase, list(submitted.ids), submitted.replayed) == (Phase.COMPLETED, [task.id], False)
    stored = await house.everything()
    counted = [len(stored[table]) for table in ("tasks", "archived_tasks", "payloads", "idempotency_keys")]
    assert counted == [0, 1, 1, 1]


async def test_a_claim_that_was_swept_by_then_is_made_again(house: House, unlucky: Unlucky, strategy: str) -> None:
    await house.submit(queue="q")

    async def work_it() -> None:
        await house.clocks.clean_up(FUTURE)

    async with unlucky(work_it) as other:
        [entry] = await other.claim("q", strategy=strategy)
    assert entry.task.phase is Phase.HELD
    assert entry.task.delivery in {1, 2}  # by key, the lost answer was that of a look at the heads
    await house.endings.complete(entry.task.id, held_match(entry.task), None, [])


async def test_a_release_of_a_task_that_others_hold_by_then(house: House, unlucky: Unlucky) -> None:
    task = await house.held("q")
    async with unlucky(lambda: house.claim("q", worker_id="other")) as other:
        written = await other.tasks.release(task.id, held_match(task), None)
    assert (written.task.phase, written.task.held_by, written.task.delivery) == (Phase.HELD, "other", 2)


async def test_a_move_of_a_held_task_that_others_hold_by_then(house: House, unlucky: Unlucky) -> None:
    task = await house.held("q")
    async with unlucky(lambda: house.claim("q", current_state="n", worker_id="other")) as other:
        written = await other.tasks.update(task.id, held_match(task), Change(new_state="n"))
    assert (written.task.phase, written.task.held_by, written.task.current_state) == (Phase.HELD, "other", "n-working")


async def test_progress_of_a_task_that_was_swept_by_then(house: House, unlucky: Unlucky) -> None:
    task = await house.held("q")
    async with unlucky(lambda: house.clocks.clean_up(FUTURE)) as other:
        written = await other.tasks.update(task.id, held_match(task), Change(payload=TEXT))
    assert (written.task.phase, written.replayed) == (Phase.READY, False)


async def test_a_move_of_an_unheld_task_that_others_hold_by_then_is_not_called_refused(
    house: House, unlucky: Unlucky
) -> None:
    [task] = await house.submit(queue="q")
    async with unlucky(lambda: house.claim("q", current_state="n")) as other:
        # What it did is overwritten: it can't be told from a write that was refused, and 409 says that nothing changed.
        with pytest.raises(Unavailable, match="may have happened"):
            await other.tasks.update(task.id, unheld_match(task), Change(new_state="n"))
        with pytest.raises(Conflict) as refusal:
            await other.tasks.update(task.id, unheld_match(task), Change(new_state="n"))
        assert refusal.value.code is Code.HELD
