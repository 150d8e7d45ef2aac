"""Submits of many tasks in one call: tasks a second, as ratios to submits of one task a call on the same server."""

from collections.abc import AsyncIterator

from benchmarks.harness import CONNECTIONS, ROUNDS, Measure, Request, Site, rate, submits

SIZES = (1, 10, 100, 1000)
SINGLES = 3000
TASKS = 64_000
CALLS = 3000
"""Most calls of a size, so that small batches don't take all the time."""


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Submit single tasks and batches in turn; the best of some rounds counts."""
    async with site.database() as (url, _), site.server(url) as server:
        await rate(server.port, submits(CONNECTIONS * 4))
        single = 0.0
        best = dict.fromkeys(SIZES, 0.0)
        for _ in range(ROUNDS):
            singles, _ = await rate(server.port, submits(site.scaled(SINGLES)))
            single = max(single, singles)
            for size in SIZES:
                calls = site.scaled(min(CALLS, TASKS // size))
                batches, _ = await rate(server.port, [_batch(size)] * calls)
                best[size] = max(best[size], batches * size)
        yield Measure(name="batch-single", value=single, unit="tasks/s")
        for size, value in best.items():
            yield Measure(name=f"batch-{size}", value=value, unit="tasks/s", ratio=value / single, of="one task a call")


def _batch(size: int) -> Request:
    return "POST", "/v1/tasks/batch", b'{"tasks":[' + b",".join([b'{"queue":"bench","payload":{"n":1}}'] * size) + b"]}"
