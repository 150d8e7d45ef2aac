"""The statements on idempotency keys, and their purge."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from corndog.domain.keys import Kept, Key, Made, Renewal
from corndog.domain.task import Match, NewTask
from corndog.store import keys as store
from corndog.store import tasks as task_store
from corndog.store.reading import now
from tests.store.conformance.bench import Bench
from tests.store.house import HOUR, MICROSECOND

DAY = timedelta(days=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
MADE = Made(task_ids=(uuid4(), uuid4()), answer=b"a")


async def keep(bench: Bench, text: str, *task_ids: UUID, job_id: UUID | None = None) -> None:
    """Keep a key whose time has come."""
    made = Made(task_ids=task_ids, job_id=job_id)
    assert await bench.do(lambda c: store.keep(c, Key(text, b"r"), made, -HOUR))


async def row(bench: Bench, text: str) -> dict[str, Any]:
    [found] = await bench.rows("SELECT * FROM idempotency_keys WHERE key = $1", text)
    return dict(found)


async def purge(bench: Bench, ttl: timedelta = DAY, batch: int = 10) -> int:
    return await bench.do(lambda c: store.purge(c, ttl, batch))


async def keys(bench: Bench) -> list[str]:
    return [row["key"] for row in await bench.rows("SELECT key FROM idempotency_keys ORDER BY key")]


async def cancel(bench: Bench, task_id: UUID) -> datetime:
    """End a task, and tell when."""
    ended = await bench.cancel(task_store.Ending(id=task_id, match=Match()))
    return ended[task_id].update_time


async def put_job(bench: Bench, end_time: datetime | None) -> UUID:
    job_id = uuid4()
    await bench.rows(
        "INSERT INTO jobs (id, status, submit_time, update_time, end_time, task_count)"
        " VALUES ($1, 'running', now(), now(), $2, 1)",
        job_id,
        end_time,
    )
    return job_id


async def test_a_key_is_kept_once(bench: Bench) -> None:
    key = Key('Ü/ %2F?#é😀\u2028"\\{a,NULL}' + "k" * 200, bytes(range(16)))
    before = await bench.do(now)
    assert await bench.do(lambda c: store.keep(c, key, MADE, DAY))
    assert await bench.do(lambda c: store.find(c, [key.text])) == {key.text: Kept(key.request, MADE)}
    kept = await row(bench, key.text)
    assert before + DAY < kept["check_time"] < before + DAY + HOUR
    assert kept["is_gone"] is False

    other = Made(job_id=uuid4())
    assert not await bench.do(lambda c: store.keep(c, Key(key.text, b"other"), other, DAY))
    assert await row(bench, key.text) == kept


async def test_a_job_is_kept(bench: Bench) -> None:
    made = Made(job_id=uuid4())
    await bench.do(lambda c: store.keep(c, Key("k", b"r"), made, DAY))
    assert await bench.do(lambda c: store.find(c, ["k"])) == {"k": Kept(b"r", made)}


async def test_what_is_not_there_is_not_found(bench: Bench) -> None:
    assert await bench.do(lambda c: store.find(c, ["k"])) == {}
    assert await purge(bench) == 0


async def test_a_key_whose_time_has_not_come_is_left_alone(bench: Bench) -> None:
    await bench.do(lambda c: store.keep(c, Key("k", b"r"), Made(task_ids=(uuid4(),)), HOUR))
    before = await row(bench, "k")
    assert await purge(bench, timedelta(0)) == 0
    assert await row(bench, "k") == before


async def test_a_key_stays_while_one_of_its_tasks_lives(bench: Bench) -> None:
    first, second = await bench.put(NewTask(), NewTask())
    await keep(bench, "k", first.id, second.id)
    await cancel(bench, first.id)
    before = await bench.do(now)
    assert await purge(bench) == 1
    kept = await row(bench, "k")
    assert before + DAY < kept["check_time"] < before + DAY + HOUR
    assert kept["is_gone"] is False


async def test_a_key_stays_for_its_time_after_its_last_task(bench: Bench) -> None:
    tasks = await bench.put(NewTask(), NewTask())
    await keep(bench, "k", *(task.id for task in tasks))
    ends = [await cancel(bench, task.id) for task in tasks]
    assert await purge(bench) == 1
    assert (await row(bench, "k"))["check_time"] == max(ends) + DAY
    assert await purge(bench) == 0

    await bench.rows("UPDATE idempotency_keys SET check_time = now()")
    assert await purge(bench, MICROSECOND) == 1
    assert await keys(bench) == []


async def test_a_task_that_lives_again_keeps_its_key(bench: Bench) -> None:
    task = await bench.put_one()
    await keep(bench, "k", task.id)
    await cancel(bench, task.id)
    [found] = await bench.do(lambda c: store.due(c, 10))
    await bench.do(lambda c: task_store.revive(c, {task.id: 0}, uuid4()))
    await bench.do(lambda c: store.drop(c, [found]))
    assert await keys(bench) == ["k"]


async def test_purged_tasks_are_remembered_once_more(bench: Bench) -> None:
    await keep(bench, "k", uuid4(), uuid4())
    before = await bench.do(now)
    assert await purge(bench) == 1
    kept = await row(bench, "k")
    assert before + DAY < kept["check_time"] < before + DAY + HOUR
    assert kept["is_gone"] is True
    assert await purge(bench) == 0

    await bench.rows("UPDATE idempotency_keys SET check_time = now()")
    assert await purge(bench) == 1
    assert await keys(bench) == []


@pytest.mark.parametrize(("ended", "stays"), [(None, True), (LONG_AGO, False)])
async def test_a_job_counts_like_tasks(bench: Bench, ended: datetime | None, stays: bool) -> None:
    await keep(bench, "k", job_id=await put_job(bench, ended))
    assert await purge(bench) == 1
    assert await keys(bench) == (["k"] if stays else [])


async def test_a_job_that_runs_again_keeps_its_key(bench: Bench) -> None:
    job_id = await put_job(bench, LONG_AGO)
    await keep(bench, "k", job_id=job_id)
    [found] = await bench.do(lambda c: store.due(c, 10))
    await bench.rows("UPDATE jobs SET end_time = NULL")
    await bench.do(lambda c: store.drop(c, [found]))
    assert await keys(bench) == ["k"]


async def test_a_key_that_was_taken_again_meanwhile_is_left_alone(bench: Bench) -> None:
    await keep(bench, "k", uuid4())
    [found] = await bench.do(lambda c: store.due(c, 10))
    await bench.rows("DELETE FROM idempotency_keys")
    await bench.do(lambda c: store.keep(c, Key("k", b"other"), MADE, DAY))
    before = await row(bench, "k")
    await bench.do(lambda c: store.drop(c, [found]))
    await bench.do(lambda c: store.renew(c, {found: Renewal(LONG_AGO, is_gone=True)}))
    assert await row(bench, "k") == before


async def test_a_purge_looks_at_those_that_are_due_the_longest(bench: Bench) -> None:
    for number in range(5):
        await keep(bench, f"k{number}", uuid4())
    assert await purge(bench, batch=2) == 2
    gone = await bench.rows("SELECT key FROM idempotency_keys WHERE is_gone ORDER BY key")
    assert [row["key"] for row in gone] == ["k0", "k1"]
    assert [await purge(bench, batch=2) for _ in range(3)] == [2, 1, 0]
