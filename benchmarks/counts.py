"""Counts over 2,000,000 tasks: how long one takes, and what ten a second cost those who claim."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter
from typing import Any

import msgspec

from benchmarks.harness import ROUNDS, Line, Measure, Site, claimed, claims, fill, rate

FEW = 10_000
MANY = 2_000_000
LOOKS = 200
CLAIMS = 3000
PACE = 0.1
"""Seconds from one read to the next while others claim."""

_COUNTS = ("GET", "/v1/queues/state-counts", b"")


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Compare a count of many tasks with one of few; then claim with reads beside it and without, in turn."""
    many, count = site.scaled(MANY), site.scaled(CLAIMS)
    async with site.database() as (few_url, few_one), site.database() as (many_url, many_one):
        await _fill(few_one, FEW)
        await _fill(many_one, many)
        async with site.server(few_url) as few_server, site.server(many_url) as server:
            of_few, of_many = await _times([few_server.port, server.port])
            quiet = watched = 0.0
            times: list[float] = []
            for _ in range(2 * ROUNDS):
                quiet = max(quiet, (await rate(server.port, claims(count), claimed))[0])
                async with _reading(server.port, times):
                    watched = max(watched, (await rate(server.port, claims(count), claimed))[0])
            assert await _total(server.port) == many
    yield Measure(name="count-of-few", value=of_few * 1000, unit="ms")
    yield Measure(name="count-of-many", value=of_many * 1000, unit="ms", ratio=of_many / of_few, of=f"{FEW:,} tasks")
    yield Measure(name="count-while-claiming", value=median(times) * 1000, unit="ms")
    yield Measure(name="claims-while-counting", value=watched, unit="claims/s", ratio=watched / quiet, of="no counts")


async def _fill(connection: Any, count: int) -> None:  # noqa: ANN401
    await fill(connection, count)
    await connection.execute("VACUUM ANALYZE tasks")
    await connection.execute("CHECKPOINT")


async def _times(ports: Sequence[int]) -> list[float]:
    """Read the counts of servers in turn: the median of each, in seconds."""
    lines = [await Line.to(port) for port in ports]
    times: list[list[float]] = [[] for _ in ports]
    for _ in range(LOOKS):
        for line, spent in zip(lines, times, strict=True):
            spent.append(await _look(line))
    for line in lines:
        line.close()
    return [median(spent) for spent in times]


async def _look(line: Line) -> float:
    began = perf_counter()
    await line.send(_COUNTS)
    return perf_counter() - began


@asynccontextmanager
async def _reading(port: int, times: list[float]) -> AsyncIterator[None]:
    """Read the counts regularly for the time of the block."""
    ends = asyncio.Event()

    async def read() -> None:
        line = await Line.to(port)
        while not ends.is_set():
            times.append(await _look(line))
            await asyncio.sleep(max(0.0, PACE - times[-1]))
        line.close()

    reading = asyncio.create_task(read())
    try:
        yield
    finally:
        ends.set()
        await reading


async def _total(port: int) -> int:
    line = await Line.to(port)
    answer = await line.send(("GET", "/v1/queues", b""))
    line.close()
    total: int = msgspec.json.decode(answer)["total_task_count"]
    return total
