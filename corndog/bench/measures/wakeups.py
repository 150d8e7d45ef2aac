"""How long a task takes from its submit to a worker that waits for it, on the same server and on another one."""

import asyncio
from statistics import median
from time import perf_counter

from corndog.bench.figures import Figure, Figures
from corndog.bench.http import Line
from corndog.bench.load import lines
from corndog.bench.places import Place
from corndog.bench.servers import Server
from corndog.bench.tasks import claim, complete, delivery, submits

FIGURES = ("submit-and-claim", "wake-up", "wake-up-across")
TASKS = 300
_OF = "one submit and one claim"


async def measure(place: Place) -> Figures:
    """Compare the time of a wake-up with that of one submit and one claim."""
    async with place.running() as here:
        alone, woken = await _compare(place, here, here)
        yield Figure(name="submit-and-claim", value=alone * 1000, unit="ms")
        yield Figure(name="wake-up", value=woken * 1000, unit="ms", ratio=woken / alone, of=_OF)
        if place.wants("wake-up-across"):
            async with place.server(here.database_url) as there:
                _, woken = await _compare(place, here, there)
            yield Figure(name="wake-up-across", value=woken * 1000, unit="ms", ratio=woken / alone, of=_OF)


async def _compare(place: Place, here: Server, there: Server) -> tuple[float, float]:
    count = place.scaled(TASKS)
    async with lines(here.address, 1) as [submitter], lines(there.address, 1) as [worker]:
        await _alone(place.queue, submitter, worker, place.scaled(50))
        alone = await _alone(place.queue, submitter, worker, count)
        return alone, await _woken(place.queue, submitter, worker, count)


async def _alone(queue: str, submitter: Line, worker: Line, count: int) -> float:
    spent = []
    for submit in submits(queue, count):
        began = perf_counter()
        await submitter.send(submit)
        answer = await worker.send(claim(queue))
        spent.append(perf_counter() - began)
        await worker.send(complete(delivery(answer)))
    return median(spent)


async def _woken(queue: str, submitter: Line, worker: Line, count: int) -> float:
    spent = []
    for submit in submits(queue, count):
        poll = asyncio.create_task(worker.send(claim(queue, wait=30)))
        await asyncio.sleep(0.02)
        began = perf_counter()
        submitting = asyncio.create_task(submitter.send(submit))
        answer = await poll
        spent.append(perf_counter() - began)
        await submitting
        await worker.send(complete(delivery(answer)))
    return median(spent)
