"""How fast single calls are, as ratios to an empty handler of the same server."""

from collections.abc import AsyncIterator

from benchmarks.harness import CONNECTIONS, ROUNDS, Measure, Site, claimed, claims, rate, submits

TASKS = 3000


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Take tasks through their lives, call by call; the best of some rounds counts."""
    async with site.database() as (url, _), site.server(url) as server:
        await rate(server.port, submits(CONNECTIONS * 4))
        rounds = [await _round(server.port, site.scaled(TASKS)) for _ in range(ROUNDS)]
        best = {name: max(figures[name] for figures in rounds) for name in rounds[0]}
        for name, value in best.items():
            yield Measure(
                name=name if name == "empty" else f"single-{name}",
                value=value,
                unit="calls/s",
                ratio=value / best["empty"],
                of="an empty handler",
            )


async def _round(port: int, count: int) -> dict[str, float]:
    empty, _ = await rate(port, [("GET", "/healthz", b"")] * count)
    submit, _ = await rate(port, submits(count))
    claim, tasks = await rate(port, claims(count), claimed)
    complete, _ = await rate(
        port, [("POST", f"/v1/tasks/{task}/complete", b'{"delivery":%d}' % delivery) for task, delivery in tasks]
    )
    return {"empty": empty, "submit": submit, "claim": claim, "complete": complete}
