"""The tasks that measures take through their lives: requests, what answers say, and rows written past the API."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from corndog.bench.errors import BenchError
from corndog.bench.http import MINIMAL, Request
from corndog.store import counts

BATCH = 1000
"""Most tasks of a call, by the server's default."""


class Held(msgspec.Struct, frozen=True):
    """A delivery."""

    id: str
    delivery: int


class Claimed(msgspec.Struct):
    """What of a claim's answer is read."""

    tasks: list[Held]


def submits(queue: str, count: int) -> list[Request]:
    """Make submits with a small payload."""
    return [Request("POST", "/v1/tasks", b'{"queue":"%s","payload":{"n":1}}' % queue.encode())] * count


def submit_batch(queue: str, size: int) -> Request:
    """Make a submit of many tasks, answered at full length."""
    tasks = b",".join([b'{"queue":"%s","payload":{"n":1}}' % queue.encode()] * size)
    return Request("POST", "/v1/tasks/batch", b'{"tasks":[' + tasks + b"]}")


def claim(queue: str, count: int = 1, **more: object) -> Request:
    """Make a claim of up to so many tasks."""
    wanted: dict[str, object] = {"queue": queue, **({"count": count} if count > 1 else {}), **more}
    return Request("POST", "/v1/tasks/next", msgspec.json.encode(wanted))


def claims(queue: str, count: int) -> list[Request]:
    """Make claims of one task each."""
    return [claim(queue)] * count


def complete(task: Held) -> Request:
    """Make a completion."""
    return Request("POST", f"/v1/tasks/{task.id}/complete", b'{"delivery":%d}' % task.delivery)


def complete_batch(tasks: Sequence[Held], next_claim: bytes = b"") -> Request:
    """Make a completion of many tasks, which may carry the body of the next claim."""
    items = b",".join([b'{"id":"%s","delivery":%d}' % (task.id.encode(), task.delivery) for task in tasks])
    more = b',"claim":' + next_claim if next_claim else b""
    return Request("POST", "/v1/tasks/complete", b'{"tasks":[' + items + b"]" + more + b"}", MINIMAL)


def deliveries(answer: bytes) -> list[Held]:
    """Read what a claim got."""
    return msgspec.json.decode(answer, type=Claimed).tasks


def delivery(answer: bytes) -> Held:
    """Read what a claim got that had to get one task.

    Raises:
        BenchError: it got none.

    """
    tasks = deliveries(answer)
    if len(tasks) != 1:
        raise BenchError("a claim came back without a task, though there are enough: does someone else claim them?")
    return tasks[0]


def completes(tasks: Iterable[Held]) -> list[Request]:
    """Make completions of one task each."""
    return [complete(task) for task in tasks]


async def fill(connection: Any, queue: str, count: int, *, phase: str = "ready", age: str = "0 s") -> None:  # noqa: ANN401
    """Write tasks into a queue, past the API."""
    parks = phase == "parked"
    await connection.execute(
        f"""
        WITH counted AS (
            INSERT INTO count_deltas (queue, current_state, tasks)
            VALUES ('{queue}', 'submitted{"-scheduled" if parks else ""}', {count})
        )
        INSERT INTO tasks (
            id, queue, current_state, auto_target_state, phase, home_state, home_target, rank,
            submit_time, update_time, due_time, delivery,
            attempt, max_attempts, backoff, backoff_max, backoff_multiplier, jitter, lost, waiting_on
        )
        SELECT
            uuidv7(), '{queue}', 'submitted{"-scheduled" if parks else ""}', 'submitted-working', '{phase}',
            'submitted', 'submitted-working', 0,
            now() - interval '{age}' + n * interval '1 microsecond', now(),
            {"now() + interval '1 day'" if parks else "NULL"}, 0,
            0, 3, interval '5 s', interval '1 hour', 2, 'full', 0, 0
        FROM generate_series(1, {count}) AS n
        """  # noqa: S608 - all of it is written in this folder
    )


async def recount(connection: Any) -> None:  # noqa: ANN401
    """Correct the counts after tasks were changed past the API."""
    await counts.correct(connection, await counts.wrong(connection))
