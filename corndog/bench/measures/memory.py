"""What a server process keeps in memory: after 1,000,000 task lives as much as after 100,000."""

from corndog.bench import living
from corndog.bench.errors import LeftOut
from corndog.bench.figures import Figure, Figures
from corndog.bench.places import Place

FIGURES = ("memory-early", "memory")
EARLY = 100_000
LATE = 1_000_000
CHUNK = 50_000
"""Lives between two looks at the books, which the generator keeps in memory."""
SIZE = "100"
MIB = 2**20


async def measure(place: Place) -> Figures:
    """Lead lives in batches, and look at the process."""
    if not place.is_ours:
        raise LeftOut("it looks at the server's process, which a server's URL does not show")
    early, late = place.scaled(EARLY), place.scaled(LATE)
    async with place.database() as (url, _), place.server(url) as server:
        if not await living.can_complete_many(server.address):
            raise LeftOut("the server has no POST /v1/tasks/complete")
        way = living.way(SIZE, place.queue)

        async def lead(lives: int) -> int:
            for begun in range(0, lives, CHUNK):
                await living.lead(server.address, place.connections, way, min(CHUNK, lives - begun))
            return server.memory()

        before = await lead(early)
        after = await lead(late - early)
    yield Figure(name="memory-early", value=before / MIB, unit=f"MiB after {early:,} lives")
    yield Figure(
        name="memory",
        value=after / MIB,
        unit=f"MiB after {late:,} lives",
        ratio=after / before,
        of=f"after {early:,} lives",
    )
