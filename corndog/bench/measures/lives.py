"""Whole lives a second, by how a client puts its requests together, and how near that comes to the database's limit.

Each task's life is verified: what was submitted was completed, once.
"""

from corndog.bench import living
from corndog.bench.errors import LeftOut
from corndog.bench.figures import Figure, Figures
from corndog.bench.measures import raw
from corndog.bench.places import Place

SIZES = (10, 100, 1000)
FIGURES = ("life-separate", "life-claiming", *(f"life-{size}" for size in SIZES))
LIVES = {"life-separate": 2000, "life-claiming": 3000, "life-10": 10_000, "life-100": 20_000, "life-1000": 24_000}
ROUNDS = 3


async def measure(place: Place) -> Figures:
    """Lead lives in each way in turn; the best of some rounds counts."""
    limit = await raw.limit(place) if place.is_ours else None
    best: dict[str, tuple[float, float]] = {}
    async with place.running() as server:
        ways = {name: living.way(name.removeprefix("life-"), place.queue) for name in FIGURES if place.wants(name)}
        if not await living.can_complete_many(server.address):
            ways = {name: way for name, way in ways.items() if name == "life-separate"}
        for name, way in ways.items():
            await living.lead(server.address, place.connections, way, place.scaled(LIVES[name] // 10))
        for _ in range(ROUNDS):
            for name, way in ways.items():
                found = await living.lead(server.address, place.connections, way, place.scaled(LIVES[name]))
                best[name] = max(best.get(name, (0.0, 0.0)), found)
    of, whole = (limit.name, limit.lives) if limit else ("life-separate", best.get("life-separate", (None,))[0])
    for name, (value, generator) in best.items():
        ratio = value / whole if whole else None
        yield Figure(name=name, value=value, unit="lives/s", ratio=ratio, of=of if ratio else "", generator=generator)
    if any(place.wants(name) for name in FIGURES if name not in best):
        raise LeftOut("the server has no POST /v1/tasks/complete")
