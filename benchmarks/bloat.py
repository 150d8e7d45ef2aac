"""Claims behind an old open transaction, where the dead rows of 200,000 finished tasks can't be cleaned away."""

from collections.abc import AsyncIterator
from typing import Any

from benchmarks.harness import Measure, Site, best_rates, claimed, claims, fill, rate, recount, submits

FINISHED = 200_000
CLAIMS = 3000
SCANS = 64


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Claim on a fresh table and behind dead rows: by hints, and by scan alone."""
    count = site.scaled(CLAIMS)
    async with (
        site.database() as (fresh_url, _),
        site.database() as (url, old),
        site.server(fresh_url) as fresh_server,
        site.server(url) as server,
        old.transaction(isolation="repeatable_read"),
    ):
        # From now on every dead row has to be kept for this transaction, which may look at it yet.
        await old.fetchval("SELECT count(*) FROM tasks")
        async with site.connection_to(url) as connection:
            await _finish(connection, site.scaled(FINISHED))
        fresh, bloated = await best_rates([fresh_server.port, server.port], count, submits_first=True)
        async with site.server(url, uses_redis=False, scheduler=False) as scanning:
            await rate(scanning.port, submits(SCANS))
            scanned, _ = await rate(scanning.port, claims(SCANS), claimed)
    yield Measure(name="fresh", value=fresh, unit="claims/s")
    yield Measure(name="bloat", value=bloated, unit="claims/s", ratio=bloated / fresh, of="a fresh table")
    yield Measure(name="bloat-scan", value=scanned, unit="claims/s", ratio=scanned / fresh, of="a fresh table")


async def _finish(connection: Any, count: int) -> None:  # noqa: ANN401
    await fill(connection, count, age="1 hour")
    await connection.execute("UPDATE tasks SET phase = 'held' WHERE phase = 'ready'")
    await connection.execute("DELETE FROM tasks WHERE phase = 'held'")
    await recount(connection)
