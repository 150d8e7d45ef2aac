"""Claims behind an old open transaction, where the dead rows of 200,000 finished tasks can't be cleaned away."""

from typing import Any

from corndog.bench.claiming import best_rates
from corndog.bench.figures import Figure, Figures
from corndog.bench.places import Place
from corndog.bench.tasks import claims, delivery, fill, recount, submits

FIGURES = ("fresh", "bloat", "bloat-scan")
FINISHED = 200_000
CLAIMS = 3000
SCANS = 64


async def measure(place: Place) -> Figures:
    """Claim on a fresh table and behind dead rows: by hints, and by scan alone."""
    count = place.scaled(CLAIMS)
    async with (
        place.running() as fresh_server,
        place.database() as (url, old),
        place.server(url) as server,
        old.transaction(isolation="repeatable_read"),
    ):
        # From now on every dead row has to be kept for this transaction, which may look at it yet.
        await old.fetchval("SELECT count(*) FROM tasks")
        async with place.connection_to(url) as connection:
            await _finish(connection, place.queue, place.scaled(FINISHED))
        fresh, bloated = await best_rates(place, [fresh_server, server], count, submits_first=True)
        async with place.server(url, uses_redis=False, scheduler=False) as scanning:
            await place.rate(scanning, submits(place.queue, SCANS))
            scanned = await place.rate(scanning, claims(place.queue, SCANS), delivery)
    yield Figure(name="fresh", value=fresh, unit="claims/s")
    yield Figure(name="bloat", value=bloated, unit="claims/s", ratio=bloated / fresh, of="a fresh table")
    scans = scanned.per_second
    yield Figure(name="bloat-scan", value=scans, unit="claims/s", ratio=scans / fresh, of="a fresh table")


async def _finish(connection: Any, queue: str, count: int) -> None:  # noqa: ANN401
    await fill(connection, queue, count, age="1 hour")
    await connection.execute("UPDATE tasks SET phase = 'held' WHERE phase = 'ready'")
    await connection.execute("DELETE FROM tasks WHERE phase = 'held'")
    await recount(connection)
