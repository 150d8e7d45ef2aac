"""The statements that only read, and the lease of the leader."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest

from corndog.domain.listing import Entry, Filter, Include, Place
from corndog.domain.task import Content, Match, NewTask, Outcome, Phase, Task
from corndog.store import leadership, reading
from corndog.store import tasks as store
from corndog.store.tasks import Ending
from tests.store.conformance.bench import Bench
from tests.store.house import HOUR, MICROSECOND, TEXT, held_match, unheld_match

RESULT = Content(b"", "a/b", is_json=True)


async def archived(bench: Bench, **asked: Any) -> Task:  # noqa: ANN401
    task = await bench.put_one(**asked)
    [ended] = (await bench.end(Ending(id=task.id, match=unheld_match(task), result=RESULT))).values()
    return ended


async def test_get_finds_live_and_archived_tasks_alike(bench: Bench) -> None:
    live, ended = await bench.put_one(payload=TEXT), await archived(bench, payload=TEXT)
    bare = await bench.put_one()
    ids = [live.id, ended.id, bare.id, uuid4(), live.id]
    for include, payload, result in [
        (Include(), None, None),
        (Include(payload=True), TEXT, None),
        (Include(result=True), None, RESULT),
        (Include(payload=True, result=True), TEXT, RESULT),
    ]:
        assert await bench.do(lambda c, include=include: reading.get(c, ids, include)) == {  # type: ignore[misc]
            live.id: Entry(live, payload),
            ended.id: Entry(ended, payload, result),
            bare.id: Entry(bare),
        }
    assert await bench.do(lambda c: reading.get(c, [], Include())) == {}


async def test_contents(bench: Bench) -> None:
    live, ended, bare = await bench.put_one(payload=TEXT), await archived(bench, payload=TEXT), await bench.put_one()
    expected = {live.id: (TEXT, None), ended.id: (TEXT, RESULT), bare.id: (None, None)}
    for task_id, (payload, result) in expected.items():
        assert await bench.do(lambda c, i=task_id: reading.content(c, i, "payloads")) == (True, payload)  # type: ignore[misc]
        assert await bench.do(lambda c, i=task_id: reading.content(c, i, "results")) == (True, result)  # type: ignore[misc]
    assert await bench.do(lambda c: reading.content(c, uuid4(), "payloads")) == (False, None)


async def test_look_up_tells_of_the_delivery_asked_for(bench: Bench) -> None:
    task = await bench.put_held()
    await bench.tasks.release(task.id, held_match(task), None)
    [entry] = await bench.take(task.id, token=uuid4())
    await bench.endings.complete(task.id, held_match(entry.task), None, [])
    outcomes = {delivery: (await bench.found(task.id, delivery)).run_outcome for delivery in (None, 0, 1, 2, 3)}
    assert outcomes == {None: None, 0: None, 1: Outcome.RELEASED, 2: None, 3: None}
    nowhere, task = store.Sought(uuid4(), 1), await bench.put_one(queue="looked up")
    found = await bench.do(lambda c: store.look_up(c, [nowhere, store.Sought(task.id, None), nowhere]))
    assert [one and one.task for one in found] == [None, task, None]


async def test_counts_are_of_live_tasks_and_without_zeros(bench: Bench) -> None:
    assert await bench.do(reading.counts) == []
    await bench.put(*[NewTask(queue="q")] * 3, NewTask(queue="q", delay=HOUR), NewTask(queue="P", current_state="Ü"))
    await bench.put_held(queue="p")
    await archived(bench, queue="gone")
    assert await bench.do(reading.counts) == [
        ("P", "Ü", 1),
        ("p", "submitted-working", 1),
        ("q", "submitted", 3),
        ("q", "submitted-scheduled", 1),
    ]
    assert await bench.do(lambda c: reading.counts(c, "q")) == [
        ("q", "submitted", 3),
        ("q", "submitted-scheduled", 1),
    ]
    assert await bench.do(lambda c: reading.counts(c, "gone")) == []


# list ----------------------------------------------------------------------------


async def many(bench: Bench) -> list[Task]:
    """Put tasks of all kinds; among them some of one submit time."""
    await bench.put(*[NewTask(queue=queue, kind=kind) for queue in ("a", "b", "ab") for kind in (None, "k")])
    await bench.put(NewTask(queue="b", current_state="x"), NewTask(queue="a", delay=HOUR), NewTask(queue="a"))
    await bench.put_held(queue="b", kind="k")
    await bench.put_blocked(queue="c")
    for queue in ("a", "b"):
        await archived(bench, queue=queue)
    task = await bench.put_held(queue="ab")
    await bench.cancel(Ending(id=task.id, match=Match()))
    await bench.rows("UPDATE tasks SET submit_time = (SELECT max(submit_time) FROM tasks) WHERE queue = 'b'")
    ids = [row["id"] for table in ("tasks", "archived_tasks") for row in (await bench.everything())[table]]
    entries = await bench.do(lambda c: reading.get(c, ids, Include()))
    return sorted((entry.task for entry in entries.values()), key=lambda task: (task.submit_time, task.id))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"queue": "a"},
        {"queue": "none"},
        {"queue": "b", "current_state": "submitted"},
        {"current_state": "submitted"},
        {"current_state": "completed"},
        {"phase": Phase.PARKED},
        {"phase": Phase.CANCELED},
        {"phase": Phase.CANCELED, "current_state": "canceled"},
        {"phase": Phase.CANCELED, "current_state": "completed"},
        {"kind": "k"},
        {"held_by": "w"},
        {"queue": "b", "held_by": "w", "phase": Phase.HELD},
        {"job_id": UUID(int=1)},
    ],
)
async def test_pages_show_what_fits_in_order(bench: Bench, fields: dict[str, Any]) -> None:
    tasks = await many(bench)
    filters = {{"held_by": "worker_id"}.get(name, name): value for name, value in fields.items()}
    for is_archive in (False, True):
        expected = [
            task.id
            for task in tasks
            if (task.phase in {Phase.COMPLETED, Phase.CANCELED}) == is_archive
            and all(getattr(task, name) == value for name, value in fields.items())
        ]
        for limit in (1, 2, 100):
            assert await all_pages(bench, Filter(archived=is_archive, **filters), limit) == expected


async def all_pages(bench: Bench, wanted: Filter, limit: int) -> Sequence[UUID]:
    listed: list[UUID] = []
    after = Place()
    while page := await bench.do(partial(reading.page, wanted=wanted, after=after, limit=limit, include=Include())):
        assert len(page) <= limit
        listed += [entry.task.id for entry in page]
        after = Place(page[-1].task.submit_time, page[-1].task.id)
    return listed


async def test_times_bound_a_listing(bench: Bench) -> None:
    tasks = [task for task in await many(bench) if task.queue != "b" and task.phase is not Phase.COMPLETED]
    live = [task for task in tasks if task.phase is not Phase.CANCELED]
    second, last = live[1].submit_time, live[-1].submit_time
    for after, before, expected in [
        (second, last, live[1:-1]),
        (second + MICROSECOND, last + MICROSECOND, live[2:]),
        (last + MICROSECOND, last + HOUR, []),
        (last, second, []),
    ]:
        listed = [
            task_id
            for queue in ("a", "ab", "c")
            for task_id in await all_pages(
                bench, Filter(queue=queue, submitted_after=after, submitted_before=before), 100
            )
        ]
        assert set(listed) == {task.id for task in expected}


async def test_a_listing_includes_what_is_asked_for(bench: Bench) -> None:
    live, ended = await bench.put_one(payload=TEXT), await archived(bench, payload=TEXT)
    both = Include(payload=True, result=True)
    assert await bench.do(lambda c: reading.page(c, Filter(), Place(), 9, both)) == [Entry(live, TEXT)]
    assert await bench.do(lambda c: reading.page(c, Filter(archived=True), Place(), 9, both)) == [
        Entry(ended, TEXT, RESULT)
    ]
    assert await bench.do(lambda c: reading.page(c, Filter(), Place(), 9, Include())) == [Entry(live)]


# The leader's lease ----------------------------------------------------------------


async def test_the_lease_has_one_holder_at_a_time(bench: Bench) -> None:
    async def lead(holder: str, term: timedelta = HOUR, name: str = "loops") -> bool:
        return await bench.do(lambda c: leadership.lead(c, name, holder, term))

    await bench.rows("DELETE FROM leader_leases")
    assert await lead("a")
    assert await lead("a")
    assert not await lead("b")
    assert await lead("b", name="other")
    await bench.do(lambda c: leadership.resign(c, "loops", "b"))
    assert not await lead("b")
    await bench.do(lambda c: leadership.resign(c, "loops", "a"))
    assert await lead("b", MICROSECOND)
    assert await lead("a")
