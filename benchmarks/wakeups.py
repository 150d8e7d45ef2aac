"""How long a task takes from its submit to a worker that waits for it, on the same server and on another one."""

import asyncio
from collections.abc import AsyncIterator
from statistics import median
from time import perf_counter

import msgspec

from benchmarks.harness import Line, Measure, Site, claims, submits

TASKS = 300
_WAIT = ("POST", "/v1/tasks/next", b'{"queue":"bench","wait":30}')


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Compare the time of a wake-up with that of one submit and one claim."""
    count = site.scaled(TASKS)
    async with site.database() as (url, _), site.server(url) as here, site.server(url) as there:
        submitter, same, other = [await Line.to(port) for port in (here.port, here.port, there.port)]
        for line in (same, other):
            await _alone(submitter, line, 50)
        alone = await _alone(submitter, same, count)
        yield Measure(name="submit-and-claim", value=alone * 1000, unit="ms")
        for name, worker in {"wake-up": same, "wake-up-across": other}.items():
            woken = await _woken(submitter, worker, count)
            yield Measure(name=name, value=woken * 1000, unit="ms", ratio=woken / alone, of="one submit and one claim")


async def _alone(submitter: Line, worker: Line, count: int) -> float:
    spent = []
    for submit, claim in zip(submits(count), claims(count), strict=True):
        began = perf_counter()
        await submitter.send(submit)
        await worker.send(claim)
        spent.append(perf_counter() - began)
    return median(spent)


async def _woken(submitter: Line, worker: Line, count: int) -> float:
    spent = []
    for submit in submits(count):
        poll = asyncio.create_task(worker.send(_WAIT))
        await asyncio.sleep(0.02)
        began = perf_counter()
        submitting = asyncio.create_task(submitter.send(submit))
        assert msgspec.json.decode(await poll)["tasks"]
        spent.append(perf_counter() - began)
        await submitting
    return median(spent)
