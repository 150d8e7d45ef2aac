"""Claims from a queue of 2,000,000 ready tasks, beside 500,000 that are parked, and behind an old open transaction."""

from typing import Any

from corndog.bench.claiming import ROUNDS, best_rates
from corndog.bench.figures import Figure, Figures
from corndog.bench.places import Place
from corndog.bench.tasks import fill

FIGURES = ("shallow", "depth")
SHALLOW = 10_000
DEEP = 2_000_000
PARKED = 500_000


async def measure(place: Place) -> Figures:
    """Claim from a shallow queue and from a deep one, in turn."""
    shallow_size = place.scaled(SHALLOW)
    async with place.running() as shallow_server, place.database() as (deep_url, deep_one):
        async with place.connection_to(shallow_server.database_url) as shallow_one:
            await _fill(shallow_one, place.queue, shallow_size, 0)
        await _fill(deep_one, place.queue, place.scaled(DEEP), place.scaled(PARKED))
        async with (
            place.server(deep_url) as deep_server,
            deep_one.transaction(isolation="repeatable_read"),
        ):
            await deep_one.fetchval("SELECT count(*) FROM tasks")
            count = max(1, shallow_size // (ROUNDS + 1))
            shallow, deep = await best_rates(place, [shallow_server, deep_server], count, submits_first=False)
    yield Figure(name="shallow", value=shallow, unit="claims/s")
    yield Figure(name="depth", value=deep, unit="claims/s", ratio=deep / shallow, of=f"{shallow_size:,} ready tasks")


async def _fill(connection: Any, queue: str, ready: int, parked: int) -> None:  # noqa: ANN401
    await fill(connection, queue, ready)
    if parked:
        await fill(connection, queue, parked, phase="parked")
    await connection.execute("VACUUM ANALYZE tasks")
    await connection.execute("CHECKPOINT")
