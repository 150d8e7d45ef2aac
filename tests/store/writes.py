"""Every write that there is, as a trial: what is there before, the write itself, and what it leaves behind."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from corndog.domain.errors import CorndogError
from corndog.domain.jobs import Member, NewJob, OnParentFailure
from corndog.domain.keys import Key
from corndog.domain.listing import Entry
from corndog.domain.task import Change, Failure, Match, NewTask, Phase, RetryPolicy, Task
from corndog.service.endings import Completing, Failing
from corndog.service.jobs import Changed, SubmittedJob
from corndog.service.submits import Submitted
from corndog.service.writes import Written
from tests.store.house import HOUR, MICROSECOND, TEXT, House, held_match, unheld_match

Write = Callable[[House, str, list[Task]], Awaitable[Any]]
MOVE = Change(new_state="n", payload=TEXT, priority=3)
PROGRESS = Change(timeout=HOUR, payload=TEXT, priority=3)
FOR_GOOD = Failure(error="e", retryable=False)
TIMED: dict[str, Any] = {"auto_target_state": "t", "timeout": MICROSECOND}


async def _ready(house: House, queue: str) -> list[Task]:
    return await house.submit(3, queue=queue, payload=TEXT)


async def _held(house: House, queue: str) -> list[Task]:
    return [await house.held(queue, payload=TEXT)]


async def _parked(house: House, queue: str) -> list[Task]:
    return await house.submit(queue=queue, delay=HOUR)


async def _overdue(house: House, queue: str) -> list[Task]:
    short: dict[str, Any] = {"queue": queue, "work_timeout": MICROSECOND}
    lost = [await house.held(**short), await house.held(**short, policy=RetryPolicy(max_lost=1))]
    return [*lost, *await house.submit(queue=queue, **TIMED)]


async def _due(house: House, queue: str) -> list[Task]:
    return await house.submit(2, queue=queue, delay=MICROSECOND)


async def _two_queues(house: House, queue: str) -> list[Task]:
    return await house.submit(2, queue=queue) + await house.submit(2, queue=f"{queue}+")


async def _dead(house: House, queue: str) -> list[Task]:
    held = await house.held(queue, payload=TEXT)
    return [(await house.endings.fail(held.id, held_match(held), FOR_GOOD)).task]


async def _family(house: House, queue: str) -> list[Task]:
    """Make a job whose one root is held, and has a child, a grandchild, and a child that runs whatever happens."""
    made = await house.jobs.submit(_job(queue))
    await house.claim(queue, worker_id="w", override_timeout=MICROSECOND)
    return list((await house.jobs.get(made.id)).tasks)


async def _dead_family(house: House, queue: str) -> list[Task]:
    [root, *_] = await _family(house, queue)
    await house.endings.fail(root.id, held_match(root), FOR_GOOD)
    return list((await house.jobs.get(_job_id(root))).tasks)


def _job(queue: str) -> NewJob:
    def member(name: str, *parents: str, on_parent_failure: OnParentFailure = OnParentFailure.CANCEL) -> Member:
        new = NewTask(queue=queue, payload=TEXT, policy=RetryPolicy(max_lost=1))
        return Member(name=name, new=new, depends_on=parents, on_parent_failure=on_parent_failure)

    runs = member("runs", "root", on_parent_failure=OnParentFailure.RUN)
    return NewJob(members=[member("root"), member("child", "root"), member("grandchild", "child"), runs])


def _job_id(task: Task) -> UUID:
    assert task.job_id
    return task.job_id


async def _several(house: House, queue: str) -> list[Task]:
    """Make tasks that are held, and one that is held no more."""
    await house.submit(4, queue=queue, payload=TEXT)
    held = [entry.task for entry in await house.claim(queue, count=4, worker_id="w")]
    await house.tasks.release(held[3].id, held_match(held[3]), HOUR)
    return held


async def _together(*writes: Awaitable[Any]) -> list[Any]:
    """Write at the same time, which makes one group; give what each is told."""
    done = await asyncio.gather(*writes, return_exceptions=True)
    if faults := [one for one in done if isinstance(one, BaseException) and not isinstance(one, CorndogError)]:
        raise faults[0]
    return [one.code if isinstance(one, CorndogError) else one for one in done]


async def _nothing(_house: House, _queue: str) -> list[Task]:
    return []


PREPARE: dict[str, Callable[[House, str], Awaitable[list[Task]]]] = {
    "ready": _ready, "held": _held, "parked": _parked, "overdue": _overdue, "due": _due, "two": _two_queues,
    "several": _several, "dead": _dead, "family": _family, "dead family": _dead_family, "nothing": _nothing,
}  # fmt: skip

VOLATILE = {
    "id", "task_id", "queue", "submit_time", "update_time", "claim_time", "end_time", "due_time", "write_token",
    "request", "next_task_ids", "job_id", "key", "task_ids", "check_time",
}  # fmt: skip
NEXT = [NewTask(queue="", payload=TEXT), NewTask(queue="", current_state="next", delay=HOUR)]


def _next(queue: str) -> list[NewTask]:
    return [msgspec.structs.replace(new, queue=queue) for new in NEXT]


def _completing(tasks: list[Task], next_tasks: Sequence[NewTask] = ()) -> list[Completing]:
    return [Completing(task.id, held_match(task), TEXT, next_tasks) for task in tasks]


def _failing(tasks: list[Task]) -> list[Failing]:
    """Say of each task in turn that it failed, and that it failed for good."""
    failures = [Failure(error="e"), FOR_GOOD]
    return [Failing(task.id, held_match(task), failures[place % 2]) for place, task in enumerate(tasks)]


WRITES: dict[str, tuple[str, Write]] = {
    "submit": ("nothing", lambda h, q, _: h.submits.submit(NewTask(queue=q, payload=TEXT))),
    "submit a group": ("ready", lambda h, q, _: h.submits.submit_all(_next(q) * 2)),
    "submit under a key": ("nothing", lambda h, q, _: h.submits.submit_once(_next(q)[0], Key(q, b"r"))),
    "submit a group under a key": (
        "ready",
        lambda h, q, _: h.submits.submit_all_once(_next(q) * 2, Key(q, b"r"), b"a"),
    ),
    "claim": ("ready", lambda h, q, _: h.claim(q, count=2, worker_id="w")),
    "claim by key": ("ready", lambda h, q, _: h.claim(q, count=2, worker_id="w", strategy="by_heads")),
    "claim anonymously": ("ready", lambda h, q, _: h.claim(q)),
    "claim from two": ("two", lambda h, q, _: h.claim([q, f"{q}+"], count=3)),
    "claim from two by key": ("two", lambda h, q, _: h.claim([q, f"{q}+"], count=3, strategy="by_heads")),
    "complete": ("held", lambda h, _, t: h.endings.complete(t[0].id, held_match(t[0]), TEXT, [])),
    "complete unheld": ("ready", lambda h, _, t: h.endings.complete(t[0].id, unheld_match(t[0]), TEXT, [])),
    "complete with next": ("held", lambda h, q, t: h.endings.complete(t[0].id, held_match(t[0]), TEXT, _next(q))),
    "move": ("held", lambda h, _, t: h.tasks.update(t[0].id, held_match(t[0]), MOVE)),
    "move unheld": ("ready", lambda h, _, t: h.tasks.update(t[0].id, unheld_match(t[0]), MOVE)),
    "move parked": ("parked", lambda h, _, t: h.tasks.update(t[0].id, unheld_match(t[0]), MOVE)),
    "progress": ("held", lambda h, _, t: h.tasks.update(t[0].id, held_match(t[0]), PROGRESS)),
    "progress unheld": ("ready", lambda h, _, t: h.tasks.update(t[0].id, unheld_match(t[0]), PROGRESS)),
    "progress parked": ("parked", lambda h, _, t: h.tasks.update(t[0].id, unheld_match(t[0]), PROGRESS)),
    "release": ("held", lambda h, _, t: h.tasks.release(t[0].id, held_match(t[0]), None)),
    "release later": ("held", lambda h, _, t: h.tasks.release(t[0].id, held_match(t[0]), HOUR)),
    "fail": ("held", lambda h, _, t: h.endings.fail(t[0].id, held_match(t[0]), Failure(error="e"))),
    "fail for good": ("held", lambda h, _, t: h.endings.fail(t[0].id, held_match(t[0]), FOR_GOOD)),
    "fail a parent": ("family", lambda h, _, t: h.endings.fail(t[0].id, held_match(t[0]), FOR_GOOD)),
    "complete a parent": ("family", lambda h, _, t: h.endings.complete(t[0].id, held_match(t[0]), TEXT, [])),
    "cancel a parent": ("family", lambda h, _, t: h.endings.cancel(t[0].id, Match())),
    "sweep a parent": ("family", lambda h, q, _: h.clocks.clean_up(queue=q)),
    "revive": ("dead", lambda h, _, t: h.revivals.revive(t[0].id)),
    "revive a parent": ("dead family", lambda h, _, t: h.revivals.revive(t[0].id)),
    "submit a job": ("nothing", lambda h, q, _: h.jobs.submit(_job(q))),
    "cancel a job": ("family", lambda h, _, t: h.jobs.cancel(_job_id(t[0]))),
    "revive a job": ("dead family", lambda h, _, t: h.jobs.revive(_job_id(t[0]))),
    "cancel": ("ready", lambda h, _, t: h.endings.cancel(t[0].id, Match())),
    "cancel held": ("held", lambda h, _, t: h.endings.cancel(t[0].id, Match())),
    "submit several": ("nothing", lambda h, q, _: _together(*(h.submits.submit(new) for new in _next(q) * 2))),
    "claim several": ("ready", lambda h, q, _: _together(*(h.claim(q, worker_id="w") for _ in range(3)))),
    "complete several": ("several", lambda h, _, t: _together(*(h.endings.complete(*c) for c in _completing(t)))),
    "complete several with next": (
        "several",
        lambda h, q, t: _together(*(h.endings.complete(*c) for c in _completing(t, _next(q)))),
    ),
    "fail several": ("several", lambda h, _, t: _together(*(h.endings.fail(*f) for f in _failing(t)))),
    "release several": (
        "several",
        lambda h, _, t: _together(*(h.tasks.release(task.id, held_match(task), None) for task in t)),
    ),
    "move several": (
        "several",
        lambda h, _, t: _together(*(h.tasks.update(task.id, held_match(task), MOVE) for task in t)),
    ),
    "progress of several": (
        "several",
        lambda h, _, t: _together(*(h.tasks.update(task.id, held_match(task), PROGRESS) for task in t)),
    ),
    "complete all": ("several", lambda h, q, t: h.endings.complete_all_or_none(_completing(t[:3], _next(q)))),
    "complete all but none": (
        "several",
        lambda h, q, t: _together(h.endings.complete_all_or_none(_completing(t, _next(q)))),
    ),
    "complete a parent in all": (
        "family",
        lambda h, q, t: h.endings.complete_all_or_none(_completing(t[:1], _next(q))),
    ),
    "fail all": ("several", lambda h, _, t: h.endings.fail_all_or_none(_failing(t[:3]))),
    "fail all but none": ("several", lambda h, _, t: _together(h.endings.fail_all_or_none(_failing(t)))),
    "fail a parent in all": (
        "family",
        lambda h, _, t: h.endings.fail_all_or_none([Failing(t[0].id, held_match(t[0]), FOR_GOOD)]),
    ),
    "sweep": ("overdue", lambda h, q, _: h.clocks.clean_up(queue=q)),
    "unpark": ("due", lambda h, _, __: h.clocks.unpark()),
}


def told(answer: Any) -> Any:  # noqa: ANN401 - whatever a use case answers
    """Reduce an answer to what must be the same each time."""
    match answer:
        case list():
            return [told(item) for item in answer]
        case Entry():
            return told(answer.task), answer.payload, answer.result
        case Submitted():
            return told(list(answer.tasks)), len(answer.ids), answer.answer, answer.replayed
        case Written():
            return told(answer.task), len(answer.next_task_ids)
        case SubmittedJob() | Changed():
            assert answer.job
            return answer.job.status, answer.job.task_count
        case Task():
            times = dict.fromkeys(("submit_time", "update_time", "claim_time", "due_time"))
            is_timed = answer.due_time and answer.timeout and answer.phase is not Phase.PARKED
            clock = answer.due_time - answer.update_time if answer.due_time and is_timed else None
            return msgspec.structs.replace(answer, id=UUID(int=0), queue="", job_id=None, **times), clock
        case _:
            return answer


async def left(house: House, queue: str) -> list[str]:
    """Read what a write has left behind in its queues: every row of every table, but for ids and times.

    Whatever it was, the counts are exact.
    """
    assert await house.reading.counts() == await house.true_counts()
    stored = await house.everything()
    of_task = {table: _by_task(stored[table]) for table in ("payloads", "results", "task_runs")}
    live = {row["id"] for row in stored["tasks"]}
    keys = [
        repr((_plain(row), [task_id in live for task_id in row["task_ids"]]))
        for row in stored["idempotency_keys"]
        if row["key"] == queue
    ]
    return keys + sorted(
        repr((
            _plain(row),
            [_plain(other) for rows in of_task.values() for other in rows.get(row["id"], [])],
            [task_id in live for task_id in row.get("next_task_ids", ())],
        ))
        for row in stored["tasks"] + stored["archived_tasks"]
        if row["queue"] in {queue, f"{queue}+"}
    )  # fmt: skip


def _by_task(rows: list[dict[str, Any]]) -> dict[UUID, list[dict[str, Any]]]:
    groups: dict[UUID, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row.get("id") or row["task_id"], []).append(row)
    return groups


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in VOLATILE}


async def trial(name: str, sound: House, on: House, queue: str) -> tuple[Any, list[str]]:
    """Prepare a queue on a sound database, write on another; give what was told of it, and what it has left."""
    prepare, write = WRITES[name]
    tasks = await PREPARE[prepare](sound, queue)
    answer = await write(on, queue, tasks)
    return told(answer), await left(sound, queue)
