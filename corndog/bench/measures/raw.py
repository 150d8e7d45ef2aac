"""The limit: the server's own statements, in groups, sent by four connections that do nothing else.

Arguments are ready-made and answers are not looked at: so much the database does, whatever stands before it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import chain
from typing import Any
from uuid import UUID, uuid4

import msgspec
from uuid_utils.compat import uuid7

from corndog.bench.figures import Figure, Figures
from corndog.bench.load import clocked
from corndog.bench.places import Place
from corndog.store.engine import Database
from corndog.store.statements import load

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
        lives = [_life(queue, size) for _ in range(groups)]
        for place, step in enumerate(_STEPS):
            found[f"raw-{step}{suffix}"] = await _send(connections, [life[place] for life in lives], size * groups)
    calls = [list(chain.from_iterable(_life(queue, size) for _ in range(groups // CONNECTIONS))) for _ in connections]
    found[f"raw-life{suffix}"] = await _send_each(connections, map(iter, calls), size * sum(map(len, calls)) // 3)
    return found


async def _send(connections: Sequence[Any], calls: Sequence[Call], tasks: int) -> tuple[float, float]:
    waiting = iter(calls)
    return await _send_each(connections, (waiting for _ in connections), tasks)


async def _send_each(connections: Sequence[Any], calls: "Iterator[Iterator[Call]]", tasks: int) -> tuple[float, float]:
    async def run(connection: Any, waiting: Iterator[Call]) -> None:  # noqa: ANN401
        for statement, arguments in waiting:
            # Of many executions, here one, the driver drops the rows unread.
            await connection.executemany(statement, [arguments])

    with clocked() as clock:
        await asyncio.gather(*map(run, connections, calls))
    return tasks / clock.seconds, clock.generator


def _life(queue: str, size: int) -> tuple[Call, Call, Call]:
    """Make the three calls that take a group of tasks through their lives."""
    ids = sorted(uuid7() for _ in range(size))
    return _submit(queue, ids), _claim(queue, ids), _complete(ids)


def _submit(queue: str, ids: Sequence[UUID]) -> Call:
    same = _same(len(ids))
    return load("submit"), (
        ids,
        *map(same, (queue, None, "submitted", None, 0, None, None, None, None)),
        *map(same, (3, timedelta(seconds=5), timedelta(hours=1), 2.0, "full", None, None)),
        *map(same, (b'{"n":1}', "application/json", True)),
        *map(same, (None, None, 0)),
    )


def _claim(queue: str, ids: Sequence[UUID]) -> Call:
    same = _same(len(ids))
    no_overrides = (None, None, None)
    rest = (*no_overrides, timedelta(minutes=5), "", uuid4())
    return load("claim_by_key"), (ids, same(queue), same(0), *rest, same("submitted"))


def _complete(ids: Sequence[UUID]) -> Call:
    same = _same(len(ids))
    matches = (same(None), same(None), same(1))
    no_results = (same(None), same(None), same(None))
    return load("end"), (
        *(ids, *matches, same(bytes(32)), same("{}"), *no_results),
        *("completed", False, "succeeded", False, same(None), same(False)),
    )


def _same(count: int) -> Callable[[object], list[object]]:
    return lambda value: [value] * count
