"""What jobs cost: submitting one, completing its tasks, and many parents of one child."""

from time import perf_counter
from typing import Any

import msgspec

from corndog.bench.errors import BenchError
from corndog.bench.figures import Figure, Figures
from corndog.bench.http import Line, Request
from corndog.bench.load import lines
from corndog.bench.places import Place
from corndog.bench.servers import Server
from corndog.bench.tasks import BATCH, Held, claim, completes, deliveries, submits

_KINDS = ("plain", "leaves", "parents", "fan-in")
FIGURES = ("batch-submit", "job-submit", *(f"complete-{kind}" for kind in _KINDS))
SIZE = 1000
"""Tasks of a job, and of what it is compared with."""
ROUNDS = 3
_WIDTH = 10


async def measure(place: Place) -> Figures:
    """Compare a job with a batch of as many tasks, and its tasks with plain ones; the best of some rounds counts."""
    size = place.scaled(SIZE)
    async with place.running(scheduler=False) as server, lines(server.address, 1) as [line]:
        await place.rate(server, submits(place.queue, place.connections * 4))
        await _drain(place, server, line)
        batch, layers = [], []
        for _ in range(ROUNDS):
            tasks = _body(tasks=[_task(place)] * size)
            batch.append(await _seconds(line, Request("POST", "/v1/tasks/batch", tasks)))
            layers.append(await _seconds(line, Request("POST", "/v1/jobs", _body(tasks=_layers(place, size)))))
            await _drain(place, server, line)
        yield Figure(name="batch-submit", value=size / min(batch), unit="tasks/s")
        yield Figure(
            name="job-submit",
            value=size / min(layers),
            unit="tasks/s",
            ratio=min(layers) / min(batch),
            of="the time of a batch",
        )
        rounds = [await _completions(place, server, line, size) for _ in range(ROUNDS)]
        best = {name: max(figures[name] for figures in rounds) for name in _KINDS}
    for name, value in best.items():
        ratio = value / best["plain"]
        yield Figure(name=f"complete-{name}", value=value, unit="tasks/s", ratio=ratio, of="completing plain tasks")


async def _completions(place: Place, server: Server, line: Line, size: int) -> dict[str, float]:
    """Complete plain tasks; leaves of a job; parents with a child each; and parents of one child."""
    names = [f"t{number}" for number in range(size)]
    parents = [_task(place, name=name) for name in names]
    jobs: dict[str, list[dict[str, Any]]] = {
        "plain": [],
        "leaves": parents,
        "parents": parents + [_task(place, name=f"child of {name}", depends_on=[name]) for name in names],
        "fan-in": [*parents, _task(place, name="child", depends_on=names)],
    }
    figures = {}
    for what, tasks in jobs.items():
        if tasks:
            await line.send(Request("POST", "/v1/jobs", _body(tasks=tasks)))
        else:
            await place.rate(server, submits(place.queue, size))
        held = await _claim(place, line)
        if len(held) != size:
            raise BenchError(f"{len(held)} of {size} ready tasks were to be had: does someone else claim them?")
        figures[what] = (await place.rate(server, completes(held))).per_second
        await _drain(place, server, line)
    return figures


async def _claim(place: Place, line: Line) -> list[Held]:
    return deliveries(await line.send(claim(place.queue, BATCH)))


async def _drain(place: Place, server: Server, line: Line) -> None:
    while held := await _claim(place, line):
        await place.rate(server, completes(held))


async def _seconds(line: Line, request: Request) -> float:
    began = perf_counter()
    await line.send(request)
    return perf_counter() - began


def _layers(place: Place, size: int) -> list[dict[str, Any]]:
    """Make a job of layers of ten tasks, each of which depends on two of the layer before."""
    return [
        _task(
            place,
            name=f"t{number}",
            depends_on=[f"t{number - _WIDTH}", f"t{number - _WIDTH - number % _WIDTH + (number + 1) % _WIDTH}"]
            if number >= _WIDTH
            else [],
        )
        for number in range(size)
    ]


def _task(place: Place, **more: object) -> dict[str, Any]:
    return {"queue": place.queue, "payload": {"n": 1}, **more}


def _body(**fields: object) -> bytes:
    return msgspec.json.encode(fields)
