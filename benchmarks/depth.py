"""Claims from a queue of 2,000,000 ready tasks, beside 500,000 that are parked, and behind an old open transaction."""

from collections.abc import AsyncIterator
from typing import Any

from benchmarks.harness import ROUNDS, Measure, Site, best_rates, fill

SHALLOW = 10_000
DEEP = 2_000_000
PARKED = 500_000
CLAIMS = SHALLOW // (ROUNDS + 1)


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Claim from a shallow queue and from a deep one, in turn."""
    async with site.database() as (shallow_url, shallow_one), site.database() as (deep_url, deep_one):
        await _fill(shallow_one, SHALLOW, 0)
        await _fill(deep_one, site.scaled(DEEP), site.scaled(PARKED))
        async with (
            site.server(shallow_url) as shallow_server,
            site.server(deep_url) as deep_server,
            deep_one.transaction(isolation="repeatable_read"),
        ):
            await deep_one.fetchval("SELECT count(*) FROM tasks")
            shallow, deep = await best_rates([shallow_server.port, deep_server.port], CLAIMS, submits_first=False)
    yield Measure(name="shallow", value=shallow, unit="claims/s")
    yield Measure(name="depth", value=deep, unit="claims/s", ratio=deep / shallow, of=f"{SHALLOW:,} ready tasks")


async def _fill(connection: Any, ready: int, parked: int) -> None:  # noqa: ANN401
    await fill(connection, ready)
    if parked:
        await fill(connection, parked, phase="parked")
    await connection.execute("VACUUM ANALYZE tasks")
    await connection.execute("CHECKPOINT")
