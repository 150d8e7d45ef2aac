"""Claims from several servers, compared."""

from collections.abc import Sequence

from corndog.bench.places import Place
from corndog.bench.servers import Server
from corndog.bench.tasks import claims, delivery, submits

ROUNDS = 3


async def best_rates(place: Place, targets: Sequence[Server], count: int, *, submits_first: bool) -> list[float]:
    """Claim from servers in turn, round after round: the best rate of each. So all have the same weather."""
    best = [0.0] * len(targets)
    for _ in range(ROUNDS):
        for number, server in enumerate(targets):
            if submits_first:
                await place.rate(server, submits(place.queue, count))
            claimed = await place.rate(server, claims(place.queue, count), delivery)
            best[number] = max(best[number], claimed.per_second)
    return best
