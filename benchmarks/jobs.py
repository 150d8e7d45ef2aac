"""What jobs cost: submitting one, completing its tasks, and many parents of one child."""

from collections.abc import AsyncIterator, Sequence
from time import perf_counter
from typing import Any

import msgspec

from benchmarks.harness import CONNECTIONS, ROUNDS, Line, Measure, Request, Site, rate, submits

SIZE = 1000
"""Tasks of a job, and of what it is compared with."""


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Compare a job with a batch of as many tasks, and its tasks with plain ones; the best of some rounds counts."""
    size = site.scaled(SIZE)
    async with site.database() as (url, _), site.server(url, scheduler=False) as server:
        await rate(server.port, submits(CONNECTIONS * 4))
        await _claim(server.port, CONNECTIONS * 4)
        line = await Line.to(server.port)
        batch, layers = [], []
        for _ in range(ROUNDS):
            batch.append(await _seconds(line, ("POST", "/v1/tasks/batch", _body(tasks=[_task()] * size))))
            layers.append(await _seconds(line, ("POST", "/v1/jobs", _body(tasks=_layers(size)))))
            await _drain(server.port, size)
        line.close()
        yield Measure(name="batch-submit", value=size / min(batch), unit="tasks/s")
        yield Measure(
            name="job-submit",
            value=size / min(layers),
            unit="tasks/s",
            ratio=min(layers) / min(batch),
            of="the time of a batch",
        )
        rounds = [await _completions(server.port, size) for _ in range(ROUNDS)]
        best = {name: max(figures[name] for figures in rounds) for name in rounds[0]}
        for name, value in best.items():
            yield Measure(
                name=f"complete-{name}",
                value=value,
                unit="tasks/s",
                ratio=value / best["plain"],
                of="completing plain tasks",
            )


async def _completions(port: int, size: int) -> dict[str, float]:
    """Complete plain tasks; leaves of a job; parents with a child each; and parents of one child."""
    figures = {}
    names = [f"t{number}" for number in range(size)]
    jobs: dict[str, list[dict[str, Any]]] = {
        "plain": [],
        "leaves": [_task(name=name) for name in names],
        "parents": [_task(name=name) for name in names]
        + [_task(name=f"child of {name}", depends_on=[name]) for name in names],
        "fan-in": [*(_task(name=name) for name in names), _task(name="child", depends_on=names)],
    }
    for what, tasks in jobs.items():
        if tasks:
            line = await Line.to(port)
            await line.send(("POST", "/v1/jobs", _body(tasks=tasks)))
            line.close()
        else:
            await rate(port, submits(size))
        held = await _claim(port, size)
        assert len(held) == size
        figures[what], _ = await rate(port, _completes(held))
        while left := await _claim(port, size):
            await rate(port, _completes(left))
    return figures


async def _claim(port: int, count: int) -> list[tuple[str, int]]:
    line = await Line.to(port)
    answer = await line.send(("POST", "/v1/tasks/next", b'{"queue":"bench","count":%d}' % min(count, 1000)))
    line.close()
    return [(task["id"], task["delivery"]) for task in msgspec.json.decode(answer)["tasks"]]


async def _drain(port: int, size: int) -> None:
    while held := await _claim(port, size):
        await rate(port, _completes(held))


def _completes(held: Sequence[tuple[str, int]]) -> list[Request]:
    return [("POST", f"/v1/tasks/{task}/complete", b'{"delivery":%d}' % delivery) for task, delivery in held]


async def _seconds(line: Line, request: Request) -> float:
    began = perf_counter()
    await line.send(request)
    return perf_counter() - began


def _layers(size: int) -> list[dict[str, Any]]:
    """Make a job of layers of ten tasks, each of which depends on two of the layer before."""
    return [
        _task(
            name=f"t{number}",
            depends_on=[f"t{number - 10}", f"t{number - 10 - number % 10 + (number + 1) % 10}"] if number >= 10 else [],  # noqa: PLR2004
        )
        for number in range(size)
    ]


def _task(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"queue": "bench", "payload": {"n": 1}, **more}


def _body(**fields: Any) -> bytes:  # noqa: ANN401
    return msgspec.json.encode(fields)
