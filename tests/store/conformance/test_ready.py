"""What is ready: the windows there are, their heads, and what can still be had."""

from uuid import uuid4

import pytest

from corndog.domain.task import Candidate, Claim, Hold, NewTask, Window
from corndog.store import claims as claim_store
from tests.store.conformance.bench import Bench
from tests.store.house import HOUR

NAMES = ["a", "Ü/ ", "p", "q", "q{}"]


async def test_windows_are_listed_page_by_page(bench: Bench) -> None:
    expected = [Window(queue, state) for queue in sorted(NAMES, key=str.encode) for state in ("s", "t")]
    await bench.put(*[NewTask(queue=window.queue, current_state=window.state) for window in expected] * 2)
    await bench.put_one(queue="parked", delay=HOUR)
    await bench.put_held(queue="held")

    async def page(after: Window | None) -> list[Window]:
        return await bench.do(lambda c: claim_store.ready_windows(c, after, 3))

    listed = await page(None)
    while following := await page(listed[-1]):
        assert len(following) <= 3
        listed += following

    assert sorted(listed) == sorted(expected)
    assert len(listed) == len(expected)


@pytest.mark.parametrize("number", [0, 1, 3, 4])
async def test_heads_go_on_after_a_place(bench: Bench, number: int) -> None:
    tasks = [await bench.put_one(queue="q", priority=priority) for priority in (2**31 - 1, 0, 0, -(2**31))]
    other = await bench.put_one(queue="p")
    [window], [elsewhere] = Claim(queues=("q",)).windows, Claim(queues=("p",)).windows
    after = tasks[number - 1].order if number else None

    heads = await bench.do(lambda c: claim_store.ready_heads(c, {window: after, elsewhere: None}, 2, 100))

    expected = sorted([*tasks[number : number + 2], other], key=lambda task: task.order)
    assert heads == [task.candidate for task in expected]


async def test_what_can_still_be_had_is_what_has_not_changed(bench: Bench) -> None:
    ready, held = await bench.put_one(queue="q", priority=3), await bench.put_held(queue="q")
    window = Window("q", "submitted")
    wrong = [
        ready.candidate._replace(order=(0, ready.submit_time, ready.id)),
        ready.candidate._replace(window=Window("p", "submitted")),
        ready.candidate._replace(window=Window("q", "other")),
        Candidate(window, held.order),
        Candidate(window, (0, ready.submit_time, uuid4())),
    ]

    assert await bench.do(lambda c: claim_store.still_ready(c, [*wrong, ready.candidate])) == {ready.id}
    assert await bench.do(lambda c: claim_store.still_ready(c, wrong)) == set()


async def test_a_heartbeat_moves_the_deadline_and_nothing_else(bench: Bench) -> None:
    held, free = await bench.put_held(queue="q", work_timeout=HOUR), await bench.put_one(queue="q")
    holds = [Hold(held.id, 1), Hold(held.id, 2), Hold(free.id, 1), Hold(uuid4(), 1)]

    [extended] = await bench.do(lambda c: claim_store.heartbeat(c, holds))

    assert (extended.hold, extended.timeout) == (holds[0], HOUR)
    assert held.due_time
    assert extended.expires
    assert extended.expires > held.due_time
    now = await bench.task(held.id)
    assert now.due_time == extended.expires
    assert (now.update_time, now.delivery, now.claim_time) == (held.update_time, 1, held.claim_time)
    assert await bench.task(free.id) == free
