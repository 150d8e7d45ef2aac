"""How fast parked tasks are released that are due at once, and how late a single one is."""

import asyncio
from datetime import datetime
from time import perf_counter

import msgspec

from corndog.bench.figures import Figure, Figures, at
from corndog.bench.http import Request
from corndog.bench.load import lines
from corndog.bench.places import Place
from corndog.bench.servers import Server
from corndog.bench.tasks import Held, claim, complete, fill

FIGURES = ("late-median", "late-p99", "release")
TASKS = 100_000
SINGLES = 200
WORKERS = 4
FIRST = 2
SPACING = 0.037
"""Seconds between two single tasks that are due: no multiple of anything that happens regularly."""

LEFT = "SELECT EXISTS (SELECT FROM tasks WHERE phase = 'parked')"
RAW = """
UPDATE tasks SET current_state = home_state, auto_target_state = home_target, phase = 'ready', due_time = NULL,
    update_time = statement_timestamp()
WHERE phase = 'parked'
"""


class _Late(Held, frozen=True):
    submit_time: datetime


class _Claimed(msgspec.Struct):
    tasks: list[_Late]


class _Run(msgspec.Struct):
    claim_time: datetime


class _Runs(msgspec.Struct):
    runs: list[_Run]


async def measure(place: Place) -> Figures:
    """See when single ones come; then release many, in relation to one plain UPDATE of as many rows."""
    if place.wants("late-median", "late-p99"):
        async with place.running() as server:
            late = sorted(await _lateness(place, server))
        yield Figure(name="late-median", value=at(0.5, late) * 1000, unit="ms")
        yield Figure(name="late-p99", value=at(0.99, late) * 1000, unit="ms")
    if place.wants("release"):
        raw, released = await _release(place, place.scaled(TASKS))
        yield Figure(name="release", value=released, unit="tasks/s", ratio=released / raw, of="one plain UPDATE")


async def _release(place: Place, count: int) -> tuple[float, float]:
    async with place.database() as (url, connection):
        await fill(connection, place.queue, count, phase="parked")
        began = perf_counter()
        await connection.execute(RAW)
        raw = count / (perf_counter() - began)
    async with place.database() as (url, connection):
        await fill(connection, place.queue, count, phase="parked")
        async with place.server(url):
            await connection.execute("UPDATE tasks SET due_time = now()")
            began = perf_counter()
            while await connection.fetchval(LEFT):  # noqa: ASYNC110 - the loop tells nobody that it is done
                await asyncio.sleep(0.05)
            return raw, count / (perf_counter() - began)


async def _lateness(place: Place, server: Server) -> list[float]:
    """Submit tasks that are due one after the other, and tell how late a waiting claim gets each."""
    number = place.scaled(SINGLES)
    async with lines(server.address, WORKERS) as workers:
        for turn in range(number):
            body = msgspec.json.encode({"queue": place.queue, "delay": round(FIRST + turn * SPACING, 6)})
            await workers[0].send(Request("POST", "/v1/tasks", body))
        waiting = iter(range(number))
        since_submit: list[float] = []

        async def take(worker: int) -> None:
            line = workers[worker]
            for _ in waiting:
                while not (tasks := (await _claim(worker)).tasks):
                    pass
                found = await line.send(Request("GET", f"/v1/tasks/{tasks[0].id}/runs"))
                claim_time = msgspec.json.decode(found, type=_Runs).runs[0].claim_time
                since_submit.append((claim_time - tasks[0].submit_time).total_seconds())
                await line.send(complete(tasks[0]))

        async def _claim(worker: int) -> _Claimed:
            return msgspec.json.decode(await workers[worker].send(claim(place.queue, wait=30)), type=_Claimed)

        await asyncio.gather(*map(take, range(WORKERS)))
    return [seconds - (FIRST + turn * SPACING) for turn, seconds in enumerate(sorted(since_submit))]
