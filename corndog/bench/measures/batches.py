"""Submits of many tasks in one call: tasks a second, as ratios to submits of one task a call on the same server."""

from corndog.bench.figures import Figure, Figures
from corndog.bench.places import Place
from corndog.bench.tasks import submit_batch, submits

SIZES = (1, 10, 100, 1000)
FIGURES = ("batch-single", *(f"batch-{size}" for size in SIZES))
SINGLES = 3000
TASKS = 64_000
ROUNDS = 3
CALLS = 3000
"""Most calls of a size, so that small batches don't take all the time."""


async def measure(place: Place) -> Figures:
    """Submit single tasks and batches in turn; the best of some rounds counts."""
    sizes = [size for size in SIZES if place.wants(f"batch-{size}")]
    best = dict.fromkeys(sizes, (0.0, 0.0))
    single = (0.0, 0.0)
    async with place.running() as server:
        await place.rate(server, submits(place.queue, place.connections * 4))
        for _ in range(ROUNDS):
            singles = await place.rate(server, submits(place.queue, place.scaled(SINGLES)))
            single = max(single, (singles.per_second, singles.generator))
            for size in sizes:
                calls = place.scaled(min(CALLS, TASKS // size))
                found = await place.rate(server, [submit_batch(place.queue, size)] * calls)
                best[size] = max(best[size], (found.per_second * size, found.generator))
    yield Figure(name="batch-single", value=single[0], unit="tasks/s", generator=single[1])
    for size, (value, generator) in best.items():
        yield Figure(
            name=f"batch-{size}",
            value=value,
            unit="tasks/s",
            ratio=value / single[0],
            of="one task a call",
            generator=generator,
        )
