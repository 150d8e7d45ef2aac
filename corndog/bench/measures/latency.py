"""How long calls take at a fixed pace, from when each was due: a server that falls behind can't hide it."""

from corndog.bench.figures import Figure, Figures, at
from corndog.bench.load import Paced, paced
from corndog.bench.places import Place
from corndog.bench.tasks import claims, completes, delivery, submits

CALLS = ("submit", "claim", "complete")
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
FIGURES = tuple(f"latency-{call}-{name}" for call in CALLS for name in PERCENTILES)
SECONDS = 10


async def measure(place: Place) -> Figures:
    """Submit, claim and complete tasks at the same pace, one kind of call after the other."""
    count = place.scaled(round(SECONDS * place.per_second))
    async with place.running() as server:
        warm = place.scaled(300)
        await place.rate(server, submits(place.queue, warm))
        tasks = await place.rate(server, claims(place.queue, warm), delivery)
        await place.rate(server, completes(tasks.kept))
        found: dict[str, Paced] = {}
        rest = (server.address, place.connections)
        found["submit"] = await paced(*rest, submits(place.queue, count), place.per_second)
        found["claim"] = await paced(*rest, claims(place.queue, count), place.per_second, delivery)
        found["complete"] = await paced(*rest, completes(found["claim"].kept), place.per_second)
    for call, answers in found.items():
        place.findings.curves[call] = answers.seconds
        for name, fraction in PERCENTILES.items():
            yield Figure(
                name=f"latency-{call}-{name}",
                value=at(fraction, answers.seconds) * 1000,
                unit=f"ms at {place.per_second:g} calls/s",
                generator=answers.generator,
            )
