"""What a task's life writes: bytes of the database's log, and versions of rows in all its tables."""

from typing import Any

from corndog.bench import living
from corndog.bench.errors import LeftOut
from corndog.bench.figures import Figure, Figures
from corndog.bench.places import Place

WAYS = {"": ("separate", 1000), "-100": ("100", 10_000)}
"""By the end of the figures' names: the way, and how many lives are counted."""
FIGURES = tuple(f"write-{what}{suffix}" for suffix in WAYS for what in ("bytes", "rows"))
LOG = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
ROWS = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::int8 FROM pg_stat_user_tables"


async def measure(place: Place) -> Figures:
    """Lead lives on a server that does nothing besides: single calls, and batches of 100."""
    singles: dict[str, float] = {}
    for suffix, (name, count) in WAYS.items():
        if place.wants(f"write-bytes{suffix}", f"write-rows{suffix}"):
            async with place.database() as (url, connection):
                found = await _written(place, url, connection, living.way(name, place.queue), place.scaled(count))
            for what, (value, unit) in found.items():
                figure = Figure(name=f"write-{what}{suffix}", value=value, unit=f"{unit} a life")
                if what in singles:
                    figure.ratio, figure.of = value / singles[what], "single calls"
                singles.setdefault(what, value)
                yield figure


async def _written(
    place: Place,
    url: str,
    connection: Any,  # noqa: ANN401
    way: living.Way,
    lives: int,
) -> dict[str, tuple[float, str]]:
    lives = max(way.size, lives // way.size * way.size)
    rows = await connection.fetchval(ROWS)
    async with place.server(url, scheduler=False) as server:
        if way.size > 1 and not await living.can_complete_many(server.address):
            raise LeftOut("the server has no POST /v1/tasks/complete")
        # Pages that are written for the first time since a checkpoint are logged as a whole: do that before.
        await living.lead(server.address, place.connections, way, lives)
        log = await connection.fetchval(LOG)
        await living.lead(server.address, place.connections, way, lives)
        log = await connection.fetchval(LOG) - log
    # A server that has ended has handed in its statistics, of both times.
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    rows = await connection.fetchval(ROWS) - rows
    return {"bytes": (float(log) / lives, "bytes of log"), "rows": (rows / lives / 2, "row versions")}
