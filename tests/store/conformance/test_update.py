"""The statements `update` and `release`."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from corndog.domain import transitions
from corndog.domain.task import Change, Content, Match, NewTask, Outcome, Task
from corndog.store import tasks as store
from corndog.store.tasks import Release, Update
from tests.store.conformance.bench import Bench, in_different_ways
from tests.store.house import HOUR, MICROSECOND, TEXT, held_match, unheld_match

OTHER = Content(b"\x00other", "a/b", is_json=True)
CHANGES = [
    Change(),
    Change(new_state="submitted"),
    Change(new_state="n", priority=-7),
    Change(new_state="n", auto_target_state="t", timeout=HOUR, payload=OTHER),
    Change(auto_target_state="t", timeout=timedelta(0), priority=7, payload=OTHER),
    Change(timeout=MICROSECOND),
]


def matching(task: Task) -> Match:
    return unheld_match(task) if task.held_by is None else held_match(task)


def as_update(task: Task, change: Change, match: Match | None = None) -> Update:
    return Update(id=task.id, match=match or matching(task), change=change, request=b"r", token=uuid4())


async def update(bench: Bench, *items: Update) -> list[Task]:
    return list((await bench.do(lambda c: store.update(c, items))).values())


async def release(bench: Bench, *items: Release) -> list[Task]:
    return list((await bench.do(lambda c: store.release(c, items))).values())


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("put", ["put_one", "put_held", "put_parked"])
async def test_an_update_does_what_the_rules_say(bench: Bench, put: str, change: Change) -> None:
    asked: dict[str, Any] = {"payload": TEXT, "timeout": HOUR, "auto_target_state": "b", "priority": 3}
    task = await (bench.put_one(delay=HOUR, **asked) if put == "put_parked" else getattr(bench, put)(**asked))
    item = as_update(task, change)
    [after] = await update(bench, item)
    assert after == transitions.update(task, change, after.update_time)
    assert (await bench.entry(task.id)).payload == (change.payload or TEXT)
    found = await bench.found(task.id, task.delivery)
    ends_hold = task.held_by is not None and transitions.is_move(task, change)
    assert (found.task, found.write_token) == (after, item.token)
    assert (found.run_outcome, found.run_request) == ((Outcome.MOVED, b"r") if ends_hold else (None, None))


@pytest.mark.parametrize(("change", "lost"), [(Change(new_state="n"), 0), (Change(), 2)])
async def test_only_a_new_state_forgets_what_was_lost(bench: Bench, change: Change, lost: int) -> None:
    task = await bench.put_held()
    for _ in range(2):
        await bench.clocks.clean_up(task.due_time)
        [entry] = await bench.take(task.id, token=uuid4())
        task = entry.task
    assert task.lost == 2
    [after] = await update(bench, as_update(task, change))
    assert after == transitions.update(task, change, after.update_time)
    assert after.lost == lost


@pytest.mark.parametrize("put", ["put_one", "put_held"])
async def test_a_rerun_of_a_move_writes_nothing_and_knows_itself(bench: Bench, put: str) -> None:
    task = await getattr(bench, put)(payload=TEXT)
    item = as_update(task, Change(new_state="n", payload=OTHER))
    await update(bench, item)
    before = await bench.everything()
    assert await update(bench, item) == []
    assert await bench.everything() == before
    assert (await bench.found(task.id, task.delivery)).write_token == item.token


@pytest.mark.parametrize("put", ["put_one", "put_held"])
async def test_a_rerun_of_progress_comes_to_the_same(bench: Bench, put: str) -> None:
    task = await getattr(bench, put)(payload=TEXT)
    change = Change(timeout=HOUR, auto_target_state="t", priority=2, payload=OTHER)
    item = as_update(task, change)
    for _ in range(2):
        [after] = await update(bench, item)
        assert after == transitions.update(task, change, after.update_time)
    stored = await bench.everything()
    assert [len(stored[table]) for table in ("tasks", "payloads", "task_runs")] == [1, 1, 0]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("_how", "match"), in_different_ways())
async def test_what_does_not_match_is_not_updated(bench: Bench, _how: str, match: Match, change: Change) -> None:
    task = await bench.put_one(queue="q", payload=TEXT)
    before = await bench.everything()
    assert await update(bench, as_update(task, change, match)) == []
    assert await bench.everything() == before


@pytest.mark.parametrize(
    "match", [Match(current_state="submitted-working"), Match(delivery=2), Match(delivery=1, queue="p")]
)
async def test_only_its_holder_writes_a_held_task(bench: Bench, match: Match) -> None:
    task = await bench.put_held()
    before = await bench.everything()
    assert await update(bench, as_update(task, CHANGES[2], match)) == []
    assert await release(bench, Release(id=task.id, match=match, delay=None, request=b"r", token=uuid4())) == []
    assert await bench.everything() == before


async def test_a_blocked_task_is_not_updated(bench: Bench) -> None:
    task = await bench.put_blocked()
    assert await update(bench, as_update(task, Change(new_state="n"), unheld_match(task))) == []


@pytest.mark.parametrize("put", ["put_one", "put_held"])
async def test_a_move_with_a_clock_and_no_target_is_refused(bench: Bench, put: str) -> None:
    task = await getattr(bench, put)()
    before = await bench.everything()
    assert await update(bench, as_update(task, Change(new_state="n", timeout=MICROSECOND, payload=TEXT))) == []
    assert await bench.everything() == before


async def test_each_item_of_a_group_gets_its_own(bench: Bench) -> None:
    ready, bad, third = await bench.put(*[NewTask()] * 3)
    held = await bench.put_held(queue="p")
    written = await update(
        bench,
        as_update(ready, Change(new_state="n", payload=OTHER)),
        as_update(bad, Change(new_state="n"), Match(current_state="elsewhere")),
        as_update(held, Change(priority=4)),
        as_update(third, Change(new_state="m", priority=1)),
    )
    assert {task.id: (task.current_state, task.priority) for task in written} == {
        ready.id: ("n", 0),
        held.id: ("submitted-working", 4),
        third.id: ("m", 1),
    }
    assert await bench.task(bad.id) == bad


# release -----------------------------------------------------------------------


def as_release(task: Task, delay: timedelta | None = None) -> Release:
    return Release(id=task.id, match=held_match(task), delay=delay, request=b"r", token=uuid4())


@pytest.mark.parametrize("delay", [None, timedelta(0), MICROSECOND, HOUR])
async def test_a_release_does_what_the_rules_say(bench: Bench, delay: timedelta | None) -> None:
    task = await bench.put_held(payload=TEXT, auto_target_state="b", priority=3)
    item = as_release(task, delay)
    [after] = await release(bench, item)
    assert after == transitions.release(task, delay, after.update_time)
    found = await bench.found(task.id, task.delivery)
    assert (found.write_token, found.run_outcome, found.run_request) == (item.token, Outcome.RELEASED, b"r")
    [run] = (await bench.everything())["task_runs"]
    assert (run["worker_id"], run["claim_time"], run["end_time"]) == ("w", task.claim_time, after.update_time)


async def test_a_rerun_of_a_release_writes_nothing(bench: Bench) -> None:
    task = await bench.put_held()
    item = as_release(task)
    await release(bench, item)
    before = await bench.everything()
    assert await release(bench, item) == []
    assert await bench.everything() == before


async def test_what_is_not_held_is_not_released(bench: Bench) -> None:
    tasks = [await bench.put_one(), await bench.put_one(delay=HOUR), await bench.put_blocked()]
    before = await bench.everything()
    for task in tasks:
        for match in (unheld_match(task), Match(delivery=0), Match(delivery=1), Match()):
            item = Release(id=task.id, match=match, delay=None, request=b"r", token=uuid4())
            assert await release(bench, item) == []
    assert await bench.everything() == before


async def test_a_group_of_releases(bench: Bench) -> None:
    tasks = [await bench.put_held(queue=name) for name in "abc"]
    items = [as_release(tasks[0]), as_release(tasks[1], HOUR), as_release(tasks[2])]
    stale = Release(id=tasks[2].id, match=Match(delivery=7), delay=None, request=b"r", token=uuid4())
    written = {task.id: task.current_state for task in await release(bench, items[0], items[1], stale)}
    assert written == {tasks[0].id: "submitted", tasks[1].id: "submitted-scheduled"}
