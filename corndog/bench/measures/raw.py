"""The limit: the server's own statements, in groups, sent by four connections that do nothing else.

Arguments are ready-made and answers are not looked at: so much the database does, whatever stands before it.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import Any, cast
from uuid import uuid4

import msgspec
from uuid_utils.compat import uuid7

from corndog.bench.figures import Figure, Figures
from corndog.bench.load import clocked
from corndog.bench.places import Place
from corndog.domain.task import Candidate, Claim, Content, Match, NewTask, Outcome, Phase
from corndog.store import claims, tasks
from corndog.store.engine import Connection, Database

CONNECTIONS = 4
SIZES = (100, 200)
TASKS = 24_000
ROUNDS = 2
_STEPS = ("submit", "claim", "complete")
_KINDS = (*_STEPS, "life")
FIGURES = tuple(f"raw-{kind}{'' if size == SIZES[0] else f'-{size}'}" for size in SIZES for kind in _KINDS)

Call = tuple[str, tuple[object, ...]]


class Limit(msgspec.Struct, frozen=True):
    """The most lives a second that the statements alone come to, and by which figure."""

    lives: float
    name: str


async def measure(place: Place) -> Figures:
    """Send the statements step by step, and as whole lives; the best of some rounds counts."""
    best = await _best(place)
    for name, (value, generator) in best.items():
        yield Figure(name=name, value=value, unit="lives/s" if "life" in name else "tasks/s", generator=generator)


async def limit(place: Place) -> Limit:
    """Find the limit, or remember it from this run."""
    known = {name: value for name in FIGURES if "life" in name and (value := place.findings.value(name))}
    if not known:
        found = await _best(place, steps=False)
        known = {name: value for name, (value, _) in found.items()}
    name = max(known, key=lambda name: known[name])
    return Limit(known[name], name)


async def _best(place: Place, *, steps: bool = True) -> dict[str, tuple[float, float]]:
    best: dict[str, tuple[float, float]] = {}
    async with place.database() as (url, _), AsyncExitStack() as stack:
        database = Database(url, pool_size=CONNECTIONS)
        stack.push_async_callback(database.close)
        connections = [await _connection(database, stack) for _ in range(CONNECTIONS)]
        for turn in range(ROUNDS + 1):
            for size in SIZES:
                groups = max(CONNECTIONS, place.scaled(TASKS) // size)
                for name, found in (await _round(connections, place.queue, size, groups, steps=steps)).items():
                    if turn:  # the first makes plans and warms caches
                        best[name] = max(best.get(name, (0.0, 0.0)), found)
    return dict(sorted(best.items(), key=lambda pair: FIGURES.index(pair[0])))


async def _connection(database: Database, stack: AsyncExitStack) -> Any:  # noqa: ANN401
    """Take one of the pool's own connections, which are set up for these statements."""
    pooled = await stack.enter_async_context(database.engine.connect())
    return (await pooled.get_raw_connection()).driver_connection


async def _round(
    connections: Sequence[Any], queue: str, size: int, groups: int, *, steps: bool
) -> dict[str, tuple[float, float]]:
    suffix = "" if size == SIZES[0] else f"-{size}"
    found = {}
    if steps:
        lives = [await _life(queue, size) for _ in range(groups)]
        for place, step in enumerate(_STEPS):
            shared = iter([life[place] for life in lives])
            found[f"raw-{step}{suffix}"] = await _send(connections, repeat(shared), size * groups)
    each = groups // CONNECTIONS
    calls = [list(chain(*[await _life(queue, size) for _ in range(each)])) for _ in connections]
    found[f"raw-life{suffix}"] = await _send(connections, map(iter, calls), size * each * CONNECTIONS)
    return found


async def _send(connections: Sequence[Any], calls: Iterable[Iterator[Call]], tasks: int) -> tuple[float, float]:
    """Send calls over connections, each from its iterator: how many tasks a second, and the driver's share."""

    async def run(connection: Any, waiting: Iterator[Call]) -> None:  # noqa: ANN401
        for statement, arguments in waiting:
            # Of many executions, here one, the driver drops the rows unread.
            await connection.executemany(statement, [arguments])

    with clocked() as clock:
        await asyncio.gather(*(run(*pair) for pair in zip(connections, calls, strict=False)))
    return tasks / clock.seconds, clock.generator


async def _life(queue: str, size: int) -> list[Call]:
    """Make the three calls that take a group of tasks through their lives, as the server makes them."""
    recorder = _Recorder()
    connection = cast("Connection", recorder)
    ids = sorted(uuid7() for _ in range(size))
    new = NewTask(queue=queue, payload=Content(b'{"n":1}', "application/json", True))
    await tasks.submit(connection, [tasks.Submission(task_id, new) for task_id in ids])
    ask = claims.Ask(Claim(queues=(queue,), count=size), size, uuid4())
    places = [Candidate(new.window, (0, datetime.now(UTC), task_id)) for task_id in ids]
    await claims.claim_by_key(connection, [(ask, place) for place in places], timedelta(minutes=5))
    endings = [tasks.Ending(id=task_id, match=Match(delivery=1), request=bytes(32)) for task_id in ids]
    await tasks.end(connection, endings, phase=Phase.COMPLETED, outcome=Outcome.SUCCEEDED)
    return recorder.calls


class _Recorder:
    """Writes down what would be sent to the database."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def fetch(self, statement: str, *arguments: object) -> list[Any]:
        self.calls.append((statement, arguments))
        return []
