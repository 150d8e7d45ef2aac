"""What is asked for under a key happens once: at the same time, again, and by others."""

import asyncio
import operator
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

import asyncpg
import pytest
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.domain.errors import Code, Conflict
from corndog.domain.keys import Key, Made
from corndog.domain.listing import Include
from corndog.domain.task import Match, NewTask, Phase
from corndog.service.keys import Keys
from corndog.service.submits import Submitted
from corndog.store.engine import Connection, Database
from corndog.store.statements import load
from tests.faults import FaultyDatabase, plain_url
from tests.store.house import TEXT, TTL, House, held_match, ids

_T = TypeVar("_T")

KEY = Key("k", b"request")
NEWS = [NewTask(queue="q", payload=TEXT), NewTask(queue="q", priority=1)]


class PurgingDatabase(FaultyDatabase):
    """Drops all keys right before one is read."""

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        if query == load("find_keys"):
            async with self.engine.connect() as other:
                await other.exec_driver_sql("DELETE FROM idempotency_keys")
                await other.commit()
        return await run()


async def submit(house: House, key: Key = KEY, news: Sequence[NewTask] = NEWS) -> Submitted:
    return await house.submits.submit_all_once(news, key, b"answer")


async def test_a_repeat_makes_nothing_and_says_so(any_house: House) -> None:
    first = await submit(any_house)
    before = await any_house.everything()
    again = await submit(any_house)
    assert (first.replayed, again.replayed) == (False, True)
    assert list(again.ids) == list(first.ids)
    assert again.tasks == first.tasks
    assert first.answer == again.answer == b"answer"
    assert await any_house.everything() == before
    assert len(before["tasks"]) == 2


async def test_a_repeat_tells_of_the_tasks_as_they_are(any_house: House) -> None:
    house = any_house
    first = await submit(house, news=[NewTask(queue="q")] * 4)
    entries = await house.claim("q", count=3)
    assert ids(entries) == list(first.ids[:3])
    await house.endings.complete(entries[1].task.id, held_match(entries[1].task), None, [])
    await house.rows("DELETE FROM tasks WHERE id = $1", first.ids[2])
    again = await submit(house, news=[NewTask(queue="q")] * 4)
    assert again.ids == first.ids
    assert [task and task.phase for task in again.tasks] == [Phase.HELD, Phase.COMPLETED, None, Phase.READY]


@pytest.mark.parametrize("news", [[NewTask(queue="other")], NEWS])
async def test_another_request_is_refused(any_house: House, news: list[NewTask]) -> None:
    """Scenario S11, as the service has it: requests are compared by their hashes."""
    await submit(any_house)
    before = await any_house.everything()
    with pytest.raises(Conflict) as refusal:
        await submit(any_house, Key("k", b"other"), news)
    assert (refusal.value.code, refusal.value.task) == (Code.KEY_IN_USE, None)
    assert await any_house.everything() == before


async def test_many_at_once_make_it_once(any_house: House) -> None:
    answers = await asyncio.gather(*(submit(any_house) for _ in range(30)))
    assert len({tuple(answer.ids) for answer in answers}) == 1
    assert [answer.replayed for answer in answers].count(False) == 1
    assert len((await any_house.everything())["tasks"]) == 2


async def test_different_requests_at_once_make_one(any_house: House) -> None:
    async def one(number: int) -> Submitted | Conflict:
        try:
            return await submit(any_house, Key("k", b"%d" % number))
        except Conflict as refusal:
            return refusal

    answers = await asyncio.gather(*(one(number) for number in range(20)))
    assert sum(isinstance(answer, Submitted) for answer in answers) == 1
    assert len((await any_house.everything())["tasks"]) == 2


async def test_many_keys_at_once_do_not_get_in_each_others_way(any_house: House) -> None:
    keys = [Key(f"k{number % 7}", b"r") for number in range(70)]
    answers = await asyncio.gather(*(submit(any_house, key) for key in keys))
    assert sum(not answer.replayed for answer in answers) == 7
    assert len((await any_house.everything())["tasks"]) == 14


async def until_one_waits(database: Database) -> None:
    waiting = (
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"
    )
    poll = AsyncRetrying(retry=retry_if_result(operator.not_), wait=wait_fixed(0.01), stop=stop_after_delay(20))
    await poll(database.run, lambda c: c.fetchval(waiting))


@pytest.mark.parametrize("commits", [True, False])
async def test_who_comes_second_waits_for_the_first(
    house: House, database: Database, empty_database_url: str, commits: bool
) -> None:
    """And makes it, if the first does not."""
    made = Made(task_ids=(house.submits._new_id(),))
    first = await asyncpg.connect(plain_url(empty_database_url))
    try:
        transaction = first.transaction()
        await transaction.start()
        assert await Keys(TTL).once(first, KEY, made) is None
        second = asyncio.create_task(submit(house))
        await until_one_waits(database)
        assert not second.done()
        await (transaction.commit() if commits else transaction.rollback())
    finally:
        await first.close()
    answer = await second
    assert answer.replayed == commits
    assert list(answer.tasks).count(None) == (1 if commits else 0)
    assert len(await house.rows("SELECT FROM tasks")) == (0 if commits else 2)


async def test_a_key_that_is_free_again_is_taken(house: House) -> None:
    first = await submit(house)
    await house.rows("DELETE FROM idempotency_keys")
    again = await submit(house, Key("k", b"another"))
    assert not again.replayed
    assert set(again.ids).isdisjoint(first.ids)


async def test_a_key_that_is_purged_while_it_is_looked_at_is_taken(
    house: House, database: Database, empty_database_url: str
) -> None:
    first = await submit(house)
    purging = PurgingDatabase(empty_database_url, isolation=database.isolation)
    try:
        again = await submit(House(purging))
    finally:
        await purging.close()
    if database.isolation == "read committed":
        assert not again.replayed
        assert set(again.ids).isdisjoint(first.ids)
    else:
        assert again.ids == first.ids  # it saw all as it was before


async def test_a_repeat_finds_its_own_and_nobody_elses(house: House) -> None:
    made = Made(job_id=house.submits._new_id())
    keys = Keys(TTL)

    async def once(connection: Connection) -> object:
        return await keys.once(connection, KEY, made)

    assert await house.database.run(once) is None
    assert await house.database.run(once) == (made, False)
    other = Made(job_id=house.submits._new_id())
    assert await house.database.run(lambda c: keys.once(c, KEY, other)) == (made, True)
    assert await house.database.run(lambda c: keys.look(c, KEY)) == (made, True)
    assert await house.database.run(lambda c: keys.look(c, Key("other", b""))) is None
    with pytest.raises(Conflict):
        await house.database.run(lambda c: keys.look(c, Key(KEY.text, b"other")))


async def test_what_a_lost_process_made_is_told_by_the_repeat(house: House) -> None:
    """The hints learn of tasks whose maker died before it could tell."""

    async def claim() -> set[UUID]:
        return set(ids(await house.claim("q", strategy="by_hints", count=2)))

    assert await claim() == set()  # from now on the hints know that there is nothing
    first = await submit(House(house.database))
    assert await claim() == set()
    await submit(house)
    assert await claim() == set(first.ids)


async def test_a_repeat_leaves_a_held_task_alone(house: House) -> None:
    first = await submit(house, news=NEWS[:1])
    [entry] = await house.claim("q")
    await submit(house, news=NEWS[:1])
    assert (await house.reading.get(first.ids[0], Include())).task == entry.task
    await house.endings.cancel(entry.task.id, Match())
    assert [task and task.phase for task in (await submit(house, news=NEWS[:1])).tasks] == [Phase.CANCELED]
