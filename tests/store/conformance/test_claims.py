"""The statements that claim: by scan, by merged scans, and by heads and key."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from corndog.domain import transitions
from corndog.domain.listing import Entry
from corndog.domain.task import Candidate, Change, Claim, Match, NewTask, Task
from corndog.store import claims as claim_store
from corndog.store import tasks as store
from corndog.store.claims import Ask
from corndog.store.tasks import Ending, Update
from tests.store.conformance.bench import Bench
from tests.store.house import DEFAULT_TIMEOUT, HOUR, TEXT, unheld_match

OVERRIDES = Claim(
    queues=("q",),
    current_state="submitted",
    override_current_state="x",
    override_auto_target_state="y",
    override_timeout=HOUR,
    worker_id="é" * 255,
)


async def scan(bench: Bench, claim: Claim, count: int, token: UUID | None = None) -> list[Entry]:
    if bench.database.is_cockroach:
        pytest.skip("CockroachDB is not claimed from by scan")
    ask = Ask(claim, count, token or uuid4())
    handed = await bench.do(lambda c: claim_store.claim_scan(c, [ask], DEFAULT_TIMEOUT))
    return handed.get(ask.token, [])


async def heads(bench: Bench, claim: Claim, count: int) -> list[UUID]:
    return [
        head.id
        for head in await bench.do(lambda c: claim_store.ready_heads(c, dict.fromkeys(claim.windows), count, count))
    ]


async def by_key(bench: Bench, claim: Claim, *candidates: Candidate) -> list[Entry]:
    ask = Ask(claim, len(candidates), uuid4())
    wanted = [(ask, candidate) for candidate in candidates]
    return (await bench.do(lambda c: claim_store.claim_by_key(c, wanted, DEFAULT_TIMEOUT))).get(ask.token, [])


async def held_by(bench: Bench, worker_id: str, token: UUID) -> list[Entry]:
    ask = Ask(Claim(worker_id=worker_id), 1, token)
    return (await bench.do(lambda c: claim_store.claimed_by(c, [ask]))).get(token, [])


async def mixed(bench: Bench) -> list[Task]:
    """Put tasks into two queues; gives them in the order in which they should go out."""
    first = [
        await bench.put_one(queue=queue, priority=priority, payload=TEXT)
        for queue, priority in [("q", 0), ("p", 0), ("q", 1), ("p", 1), ("q", -1), *[("q", 0), ("p", 0)] * 3]
    ]
    await bench.put_one(queue="q", current_state="elsewhere")
    await bench.put_one(queue="r", priority=9)
    await bench.put_one(queue="q", delay=HOUR, priority=9)
    await bench.put_blocked(queue="q", priority=9)
    held = await bench.put_one(queue="q", priority=9)
    await bench.take(held.id, token=uuid4())
    return sorted(first, key=lambda task: task.order)


@pytest.mark.parametrize(
    "claim",
    [
        OVERRIDES,
        Claim(queues=("q",)),
        Claim(queues=("q", "none")),
        Claim(queues=("q",), override_timeout=timedelta(0)),
        Claim(queues=("none", "q"), override_timeout=timedelta(0)),
    ],
)
@pytest.mark.parametrize("by", ["scan", "key"])
async def test_a_claim_does_what_the_rules_say(bench: Bench, claim: Claim, by: str) -> None:
    task = await bench.put_one(queue="q", payload=TEXT, work_timeout=timedelta(seconds=7))
    [entry] = await (scan(bench, claim, 1) if by == "scan" else by_key(bench, claim, task.candidate))
    now = entry.task.update_time
    assert entry == Entry(transitions.claim(task, claim, now, DEFAULT_TIMEOUT), TEXT)
    assert await bench.task(task.id) == entry.task


@pytest.mark.parametrize("by", ["scan", "key"])
async def test_a_task_may_want_no_clock(bench: Bench, by: str) -> None:
    task = await bench.put_one(queue="q", work_timeout=timedelta(0))
    claim = Claim(queues=("q",))
    [entry] = await (scan(bench, claim, 1) if by == "scan" else by_key(bench, claim, task.candidate))
    assert (entry.task.timeout, entry.task.due_time, entry.task.work_timeout) == (None, None, timedelta(0))


@pytest.mark.parametrize("queues", [("q",), ("p",), ("q", "p"), ("p", "none", "q")])
@pytest.mark.parametrize("count", [1, 2, 3, 100])
async def test_the_first_go_first(bench: Bench, queues: tuple[str, ...], count: int) -> None:
    expected = [task.id for task in await mixed(bench) if task.queue in queues]
    claim = Claim(queues=queues)
    assert await heads(bench, claim, count) == expected[:count]
    assert [entry.task.id for entry in await scan(bench, claim, count)] == expected[:count]
    assert [entry.task.id for entry in await scan(bench, claim, 100)] == expected[count:]
    assert await heads(bench, claim, count) == []


async def test_heads_are_only_looked_at(bench: Bench) -> None:
    await mixed(bench)
    before = await bench.everything()
    await heads(bench, Claim(queues=("q", "p")), 100)
    assert await bench.everything() == before


@pytest.mark.parametrize("change", ["taken", "moved", "canceled", "completed"])
async def test_heads_that_have_changed_meanwhile_are_passed_over(bench: Bench, change: str) -> None:
    task, other = await bench.put(*[NewTask(queue="q")] * 2)
    claim = Claim(queues=("q",))
    candidates = await bench.do(lambda c: claim_store.ready_heads(c, dict.fromkeys(claim.windows), 2, 2))
    match change:
        case "taken":
            await bench.take(task.id, token=uuid4())
        case "moved":
            item = Update(
                id=task.id, match=unheld_match(task), change=Change(new_state="n"), request=b"", token=uuid4()
            )
            await bench.do(lambda c: store.update(c, [item]))
        case "canceled":
            await bench.cancel(Ending(id=task.id, match=Match()))
        case _:
            await bench.end(Ending(id=task.id, match=unheld_match(task)))
    before = await bench.found(task.id)
    assert [entry.task.id for entry in await by_key(bench, claim, *candidates)] == [other.id]
    assert await bench.found(task.id) == before


async def test_by_key_keeps_to_the_queues_and_the_state(bench: Bench) -> None:
    tasks = [
        await bench.put_one(queue="p"),
        await bench.put_one(queue="q", current_state="elsewhere"),
        await bench.put_one(queue="q", delay=HOUR),
        await bench.put_blocked(queue="q"),
        await bench.put_held(queue="q"),
    ]
    before = await bench.everything()
    for state in ("submitted", "submitted-scheduled", "submitted-blocked", "submitted-working"):
        claim = Claim(queues=("q",), current_state=state)
        ids = [task.id for task in tasks] + [uuid4()]
        candidates = [Candidate(claim.windows[0], (0, tasks[0].submit_time, task_id)) for task_id in ids]
        assert await by_key(bench, claim, *candidates) == []
    assert await bench.everything() == before


async def test_by_key_keeps_to_the_priority(bench: Bench) -> None:
    task = await bench.put_one(queue="q", priority=5)
    claim = Claim(queues=("q",))
    elsewhere = task.candidate._replace(order=(-4, task.submit_time, task.id))
    assert await by_key(bench, claim, elsewhere) == []
    assert [entry.task.id for entry in await by_key(bench, claim, elsewhere, task.candidate)] == [task.id]


async def test_by_key_answers_in_claim_order(bench: Bench) -> None:
    low, old, new = (
        await bench.put_one(queue="q", priority=-1),
        await bench.put_one(queue="q"),
        await bench.put_one(queue="q"),
    )
    entries = await by_key(bench, Claim(queues=("q",)), low.candidate, new.candidate, old.candidate)
    assert [entry.task.id for entry in entries] == [old.id, new.id, low.id]


async def test_a_lost_claim_is_found_by_its_token(bench: Bench) -> None:
    tasks = await bench.put(*[NewTask(queue="q", payload=TEXT)] * 3)
    token = uuid4()
    entries = await bench.take(tasks[0].id, tasks[1].id, token=token)
    await bench.take(tasks[2].id, token=uuid4())
    assert await held_by(bench, "w", token) == entries
    assert await held_by(bench, "other", token) == []
    assert await held_by(bench, "w", uuid4()) == []


async def test_a_lost_claim_that_has_ended_is_not_found(bench: Bench) -> None:
    tasks = await bench.put(*[NewTask(queue="q")] * 2)
    token = uuid4()
    first, _ = await bench.take(*[task.id for task in tasks], token=token)
    await bench.end(Ending(id=first.task.id, match=Match(delivery=1)))
    await bench.clocks.clean_up((await bench.task(tasks[1].id)).due_time)
    assert await held_by(bench, "w", token) == []
