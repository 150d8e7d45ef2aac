"""The statement `submit`."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from corndog.domain import transitions
from corndog.domain.limits import COUNT_MAX, DURATION_MAX, PRIORITY_MAX, PRIORITY_MIN
from corndog.domain.task import Content, Jitter, NewTask, Phase, RetryPolicy
from corndog.store import tasks as store
from tests.store.conformance.bench import Bench
from tests.store.house import HOUR, MICROSECOND, TEXT

NEWS = [
    NewTask(),
    NewTask(
        queue='Ü/ %2F?#é😀\u2028"\\',
        kind="k" * 255,
        current_state="s" * 240,
        auto_target_state="{a,NULL}",
        priority=PRIORITY_MAX,
        delay=DURATION_MAX,
        timeout=DURATION_MAX - MICROSECOND,
        work_timeout=timedelta(0),
        policy=RetryPolicy(
            max_attempts=None,
            backoff=timedelta(0),
            backoff_max=DURATION_MAX,
            backoff_multiplier=1.1,
            jitter=Jitter.NONE,
            max_lost=COUNT_MAX,
        ),
        metadata='{"a": "\\u0000", "b": [1e400]}',
        payload=Content(bytes(range(256)), "application/x; a=b", is_json=False),
    ),
    NewTask(priority=PRIORITY_MIN, run_at=datetime(9999, 12, 31, 23, 59, 59, 999998, tzinfo=UTC)),
    NewTask(run_at=datetime(1, 1, 1, tzinfo=UTC), payload=Content(b"", "text/plain", is_json=True)),
    NewTask(delay=timedelta(0), timeout=timedelta(0)),
    NewTask(timeout=MICROSECOND, auto_target_state="b", policy=RetryPolicy(max_attempts=COUNT_MAX)),
]


async def test_a_group_is_what_the_rules_say(bench: Bench) -> None:
    tasks = await bench.put(*NEWS)
    now = tasks[0].update_time
    for place, (new, task) in enumerate(zip(NEWS, tasks, strict=True)):
        assert task == transitions.submit(new, task.id, now, place)
        entry = await bench.entry(task.id)
        assert (entry.task, entry.payload, entry.result) == (task, new.payload, None)
    stored = await bench.everything()
    assert [len(stored[table]) for table in ("tasks", "payloads")] == [6, 2]


async def test_a_rerun_writes_nothing(bench: Bench) -> None:
    items = [store.Submission(uuid4(), NewTask(payload=TEXT)) for _ in range(3)]
    assert len(await bench.do(lambda c: store.submit(c, items))) == 3
    before = await bench.everything()
    assert await bench.do(lambda c: store.submit(c, items)) == {}
    assert await bench.everything() == before


async def test_a_rerun_leaves_a_task_as_it_has_become(bench: Bench) -> None:
    item = store.Submission(uuid4(), NewTask(payload=TEXT))
    await bench.do(lambda c: store.submit(c, [item]))
    await bench.take(item.id, token=uuid4())
    before = await bench.everything()
    other = store.Submission(item.id, NewTask(queue="p", payload=Content(b"other", "a/b", is_json=False)))
    assert await bench.do(lambda c: store.submit(c, [other])) == {}
    assert await bench.everything() == before


async def test_what_is_missing_of_a_group_is_written(bench: Bench) -> None:
    first, second = (store.Submission(uuid4(), NewTask(payload=TEXT)) for _ in range(2))
    await bench.do(lambda c: store.submit(c, [first]))
    assert set(await bench.do(lambda c: store.submit(c, [first, second]))) == {second.id}


async def test_a_group_is_claimed_in_its_order(bench: Bench) -> None:
    tasks = await bench.put(*[NewTask()] * 50)
    taken = [entry.task.id for entry in await bench.claim("default", count=50)]
    assert taken == [task.id for task in tasks]


async def test_a_delay_of_a_moment_parks(bench: Bench) -> None:
    task = await bench.put_one(delay=MICROSECOND, timeout=HOUR, auto_target_state="b")
    assert (task.phase, task.due_time, task.timeout) == (Phase.PARKED, task.update_time + MICROSECOND, HOUR)
