"""Counts over 2,000,000 tasks: how long one takes, and what ten a second cost those who claim."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter
from typing import Any

import msgspec

from corndog.bench.errors import BenchError
from corndog.bench.figures import Figure, Figures
from corndog.bench.http import Line, Request
from corndog.bench.load import lines
from corndog.bench.places import Place
from corndog.bench.servers import Server
from corndog.bench.tasks import claims, delivery, fill

FIGURES = ("count-of-few", "count-of-many", "count-while-claiming", "claims-while-counting")
FEW = 10_000
MANY = 2_000_000
LOOKS = 200
CLAIMS = 3000
ROUNDS = 6
PACE = 0.1
"""Seconds from one read to the next while others claim."""

_COUNTS = Request("GET", "/v1/queues/state-counts")


class _Queues(msgspec.Struct):
    total_task_count: int


async def measure(place: Place) -> Figures:
    """Compare a count of many tasks with one of few; then claim with reads beside it and without, in turn."""
    few, count = place.scaled(FEW), place.scaled(CLAIMS)
    many = max(place.scaled(MANY), 2 * ROUNDS * count)
    async with place.running() as few_server, place.database() as (many_url, many_one):
        async with place.connection_to(few_server.database_url) as few_one:
            await _fill(few_one, place.queue, few)
        await _fill(many_one, place.queue, many)
        async with place.server(many_url) as server:
            of_few, of_many = await _times(place, few_server, server)
            quiet = watched = 0.0
            times: list[float] = []
            for _ in range(ROUNDS):
                quiet = max(quiet, (await place.rate(server, claims(place.queue, count), delivery)).per_second)
                async with _reading(server, times):
                    watched = max(watched, (await place.rate(server, claims(place.queue, count), delivery)).per_second)
            if (total := await _total(server)) != many:
                raise BenchError(f"{total} tasks are counted where there are {many}")
    yield Figure(name="count-of-few", value=of_few * 1000, unit="ms")
    yield Figure(name="count-of-many", value=of_many * 1000, unit="ms", ratio=of_many / of_few, of=f"{few:,} tasks")
    yield Figure(name="count-while-claiming", value=median(times) * 1000, unit="ms")
    yield Figure(name="claims-while-counting", value=watched, unit="claims/s", ratio=watched / quiet, of="no counts")


async def _fill(connection: Any, queue: str, count: int) -> None:  # noqa: ANN401
    await fill(connection, queue, count)
    await connection.execute("VACUUM ANALYZE tasks")
    await connection.execute("CHECKPOINT")


async def _times(place: Place, *targets: Server) -> Sequence[float]:
    """Read the counts of servers in turn: the median of each, in seconds."""
    times: list[list[float]] = [[] for _ in targets]
    async with lines(targets[0].address, 1) as [one], lines(targets[1].address, 1) as [other]:
        for _ in range(place.scaled(LOOKS)):
            for line, spent in zip((one, other), times, strict=True):
                spent.append(await _look(line))
    return [median(spent) for spent in times]


async def _look(line: Line) -> float:
    began = perf_counter()
    await line.send(_COUNTS)
    return perf_counter() - began


@asynccontextmanager
async def _reading(server: Server, times: list[float]) -> AsyncIterator[None]:
    """Read the counts regularly for the time of the block."""
    ends = asyncio.Event()

    async def read() -> None:
        async with lines(server.address, 1) as [line]:
            while not ends.is_set():
                times.append(await _look(line))
                await asyncio.sleep(max(0.0, PACE - times[-1]))

    reading = asyncio.create_task(read())
    try:
        yield
    finally:
        ends.set()
        await reading


async def _total(server: Server) -> int:
    async with lines(server.address, 1) as [line]:
        return msgspec.json.decode(await line.send(Request("GET", "/v1/queues")), type=_Queues).total_task_count
