"""The statements `sweep`, `sweep_dead`, `unpark` and `oldest_overdue`."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from corndog.domain import transitions
from corndog.domain.task import NewTask, Outcome, Phase, RetryPolicy, Task
from corndog.service import clocks
from corndog.store import reading
from corndog.store import tasks as store
from tests.store.conformance.bench import Bench
from tests.store.house import HOUR, MICROSECOND, TEXT

FUTURE = datetime(2200, 1, 1, tzinfo=UTC)
TIMED: dict[str, Any] = {"auto_target_state": "t", "timeout": HOUR}


async def sweep(
    bench: Bench, at_time: datetime = FUTURE, began: datetime | None = None, queue: str | None = None, batch: int = 9
) -> list[Task]:
    if began is None:
        began = await bench.do(reading.now)
    return await bench.do(lambda c: store.sweep(c, at_time=at_time, began=began, queue=queue, batch=batch))


async def sweep_dead(
    bench: Bench, at_time: datetime = FUTURE, began: datetime | None = None, queue: str | None = None, batch: int = 9
) -> list[Task]:
    if began is None:
        began = await bench.do(reading.now)
    return await bench.do(lambda c: store.sweep_dead(c, at_time=at_time, began=began, queue=queue, batch=batch))


@pytest.mark.parametrize("put", ["put_one", "put_held"])
async def test_a_sweep_does_what_the_rules_say(bench: Bench, put: str) -> None:
    task = await getattr(bench, put)(payload=TEXT, policy=RetryPolicy(max_lost=2), **TIMED)
    [after] = await sweep(bench)
    assert after == await bench.task(task.id) == transitions.time_out(task, after.update_time)
    stored = await bench.everything()
    if put == "put_held":
        [run] = stored["task_runs"]
        assert (run["outcome"], run["delivery"], run["worker_id"], run["request"]) == (Outcome.DEAD, 1, "w", None)
        assert (run["claim_time"], run["end_time"]) == (task.claim_time, after.update_time)
    else:
        assert stored["task_runs"] == []
    before = await bench.everything()
    assert await sweep(bench) == []
    assert await bench.everything() == before


async def test_a_sweep_keeps_to_its_time(bench: Bench) -> None:
    task = await bench.put_held()
    assert task.due_time
    for end in (sweep, sweep_dead):
        assert await end(bench, task.due_time - MICROSECOND) == []
    assert len(await sweep(bench, task.due_time)) == 1


@pytest.mark.parametrize("max_lost", [None, 1])
async def test_a_sweep_leaves_what_was_claimed_since_it_began(bench: Bench, max_lost: int | None) -> None:
    task = await bench.put_held(policy=RetryPolicy(max_lost=max_lost))
    assert task.claim_time
    before = await bench.everything()
    for end in (sweep, sweep_dead):
        assert await end(bench, began=task.claim_time - MICROSECOND) == []
    assert await bench.everything() == before
    assert len(await (sweep_dead if max_lost else sweep)(bench, began=task.claim_time)) == 1


async def test_a_sweep_keeps_to_its_queue(bench: Bench) -> None:
    live, dead = await bench.put_held(queue="q"), await bench.put_held(queue="q", policy=RetryPolicy(max_lost=1))
    for end in (sweep, sweep_dead):
        assert await end(bench, queue="p") == []
    assert [task.id for task in await sweep(bench, queue="q")] == [live.id]
    assert [task.id for task in await sweep_dead(bench, queue="q")] == [dead.id]


async def test_what_has_no_clock_is_not_swept(bench: Bench) -> None:
    await bench.put_one()
    await bench.put_one(delay=MICROSECOND)
    await bench.put_one(delay=MICROSECOND, **TIMED)
    await bench.put_blocked()
    await bench.put_held(work_timeout=timedelta(0), policy=RetryPolicy(max_lost=1))
    before = await bench.everything()
    for end in (sweep, sweep_dead):
        assert await end(bench) == []
    assert await bench.everything() == before


async def test_what_is_lost_too_often_is_left_to_the_other_sweep(bench: Bench) -> None:
    task = await bench.put_held(payload=TEXT, policy=RetryPolicy(max_lost=1))
    ready = await bench.put_one(policy=RetryPolicy(max_lost=1), **TIMED)
    assert [swept.id for swept in await sweep(bench)] == [ready.id]
    [dead] = await sweep_dead(bench)
    assert dead == await bench.task(task.id) == transitions.time_out(task, dead.update_time)
    assert (dead.phase, dead.lost, dead.held_by) == (Phase.FAILED, 1, "w")
    stored = await bench.everything()
    [row] = stored["archived_tasks"]
    assert (row["outcome"], row["request"], row["next_task_ids"]) == (Outcome.DEAD, None, [])
    assert stored["task_runs"] == []  # it is read off the archive
    assert await sweep_dead(bench) == []
    assert await bench.everything() == stored


async def test_batches_take_the_most_overdue_first(bench: Bench) -> None:
    tasks = [await bench.put_held(queue=name, work_timeout=number * HOUR) for number, name in enumerate("abcd", 1)]
    for batch in ([tasks[0].id, tasks[1].id], [tasks[2].id, tasks[3].id], []):
        assert {task.id for task in await sweep(bench, batch=2)} == set(batch)


async def test_a_cleanup_goes_on_until_nothing_is_left(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "BATCH", 3)
    await bench.put(*[NewTask(timeout=MICROSECOND, auto_target_state="t")] * 6, *[NewTask(delay=MICROSECOND)] * 7)
    for _ in range(4):
        await bench.put_held(queue="q", work_timeout=MICROSECOND, policy=RetryPolicy(max_lost=1))
    assert await bench.clocks.clean_up() == 10
    assert await bench.clocks.unpark() == 7
    assert await bench.clocks.clean_up() == await bench.clocks.unpark() == 0


# unpark ------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{}, TIMED])
async def test_unparking_does_what_the_rules_say(bench: Bench, asked: dict[str, Any]) -> None:
    task = await bench.put_one(payload=TEXT, delay=MICROSECOND, **asked)
    [unparked] = await bench.do(lambda c: store.unpark(c, 9))
    after = await bench.task(task.id)
    assert after == transitions.unpark(task, after.update_time)
    assert unparked == after.candidate
    before = await bench.everything()
    assert await bench.do(lambda c: store.unpark(c, 9)) == []
    assert await bench.everything() == before


async def test_unparking_waits_for_the_time(bench: Bench) -> None:
    await bench.put_one(delay=HOUR)
    await bench.put_one()
    await bench.put_held()
    await bench.put_one(timeout=MICROSECOND, auto_target_state="t")
    await bench.put_blocked()
    before = await bench.everything()
    assert await bench.do(lambda c: store.unpark(c, 9)) == []
    assert await bench.everything() == before


async def test_unparking_in_batches_begins_with_the_oldest(bench: Bench) -> None:
    now = await bench.do(reading.now)
    tasks = [await bench.put_one(delay=MICROSECOND * number) for number in (3, 1, 2)]
    order = sorted(tasks, key=lambda task: task.due_time or now)
    for task in order:
        assert [unparked.id for unparked in await bench.do(lambda c: store.unpark(c, 1))] == [task.id]


# oldest_overdue ------------------------------------------------------------------


async def test_the_oldest_overdue_hold_is_told(bench: Bench) -> None:
    assert await bench.do(reading.oldest_overdue) is None
    await bench.put(NewTask(**TIMED), NewTask(delay=MICROSECOND), NewTask(timeout=MICROSECOND, auto_target_state="t"))
    await bench.put_held()
    assert await bench.do(reading.oldest_overdue) is None
    tasks = await bench.put(*[NewTask(queue="q")] * 2)
    [first] = await bench.take(tasks[0].id, token=uuid4(), clock=MICROSECOND)
    await bench.take(tasks[1].id, token=uuid4(), clock=MICROSECOND)
    found = await bench.do(reading.oldest_overdue)
    assert found
    assert found[0] == first.task.due_time
    assert found[1] > found[0]


async def test_a_hold_is_worth_a_warning_after_a_minute(bench: Bench) -> None:
    hold = await bench.put_held(work_timeout=MICROSECOND)
    assert await bench.reading.overdue() is None
    for seconds, is_told in [(59, False), (61, True)]:
        late = timedelta(seconds=seconds)
        await bench.rows(
            "UPDATE tasks SET due_time = statement_timestamp() - $2::interval WHERE id = $1", hold.id, late
        )
        overdue = await bench.reading.overdue()
        assert (overdue is not None) == is_told
    assert overdue is not None
    assert overdue >= timedelta(seconds=61)
