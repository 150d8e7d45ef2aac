"""How fast single calls are, as ratios to an empty handler of the same server."""

from corndog.bench.figures import Figure, Figures
from corndog.bench.http import Request
from corndog.bench.load import Rate
from corndog.bench.places import Place
from corndog.bench.servers import Server
from corndog.bench.tasks import claims, completes, delivery, submits

FIGURES = ("empty", "single-submit", "single-claim", "single-complete")
TASKS = 3000
ROUNDS = 3


async def measure(place: Place) -> Figures:
    """Take tasks through their lives, call by call; the best of some rounds counts."""
    async with place.running() as server:
        await _round(place, server, place.scaled(TASKS // 10))
        rounds = [await _round(place, server, place.scaled(TASKS)) for _ in range(ROUNDS)]
    best = {name: max((figures[name] for figures in rounds if name in figures), default=None) for name in FIGURES}
    empty = best["empty"]
    for name, found in best.items():
        if found and empty:
            yield Figure(
                name=name,
                value=found.per_second,
                unit="calls/s",
                ratio=found.per_second / empty.per_second,
                of="an empty handler",
                generator=found.generator,
            )


async def _round(place: Place, server: Server, count: int) -> dict[str, Rate]:
    found = {"empty": await place.rate(server, [Request("GET", "/healthz")] * count)}
    if place.wants(*FIGURES[1:]):
        found["single-submit"] = await place.rate(server, submits(place.queue, count))
        claim = found["single-claim"] = await place.rate(server, claims(place.queue, count), delivery)
        found["single-complete"] = await place.rate(server, completes(claim.kept))
    return found
