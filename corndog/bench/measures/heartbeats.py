"""10,000 held tasks with a lease of 60 s and a heartbeat every 5 s: how often a row is written, and how fast it is."""

import asyncio
from collections.abc import Sequence
from time import perf_counter

import msgspec

from corndog.bench.errors import BenchError, LeftOut
from corndog.bench.figures import Figure, Figures
from corndog.bench.http import Request
from corndog.bench.load import lines
from corndog.bench.places import NO_DATABASE, Place
from corndog.bench.servers import Server
from corndog.bench.tasks import Held, claim, completes, deliveries, submit_batch

FIGURES = ("heartbeats", "heartbeat-calls")
TASKS = 10_000
LEASE = 60
BEATS = 12
GROUP = 100


async def measure(place: Place) -> Figures:
    """Send heartbeats for one lease's time, and count the rows that were written."""
    if place.is_ours:
        async with place.database() as (url, connection):
            async with place.server(url) as server:
                tasks, calls, spent = await _hold(place, server)
            # A server that has ended has handed in its statistics. Each task was updated once besides, by its claim.
            updates = await connection.fetchval("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'tasks'")
        yield Figure(name="heartbeats", value=updates / tasks - 1, unit="row updates per task and lease")
    else:
        async with place.running() as server:
            _, calls, spent = await _hold(place, server)
    yield Figure(name="heartbeat-calls", value=calls / spent, unit=f"calls/s of {GROUP} deliveries")
    if not place.is_ours:
        raise LeftOut(NO_DATABASE)


async def _hold(place: Place, server: Server) -> tuple[int, int, float]:
    """Hold tasks for one lease's time: how many, by how many calls, and how long those took."""
    groups = max(1, place.scaled(TASKS) // GROUP)
    lease = place.seconds(LEASE, least=1)
    await place.rate(server, [submit_batch(place.queue, GROUP)] * groups)
    wanted = [claim(place.queue, GROUP, override_timeout=lease)] * groups
    held = [tasks for tasks in (await place.rate(server, wanted, deliveries)).kept if tasks]
    calls, spent = await _beat(server, held, lease / BEATS)
    await place.rate(server, completes(task for tasks in held for task in tasks))
    return sum(map(len, held)), calls, spent


async def _beat(server: Server, groups: Sequence[Sequence[Held]], pause: float) -> tuple[int, float]:
    """Send the heartbeats of one lease: how many calls, and how long they took."""
    requests = [Request("POST", "/v1/tasks/heartbeat", msgspec.json.encode({"deliveries": tasks})) for tasks in groups]
    spent = 0.0
    async with lines(server.address, 1) as [line]:
        for beat in range(BEATS):
            began = perf_counter()
            answers = [await line.send(request) for request in requests]
            took = perf_counter() - began
            spent += took
            for answer in answers:
                if any(one["status"] != "held" for one in msgspec.json.decode(answer)["deliveries"]):
                    raise BenchError("a task was lost although its heartbeats came in time")
            if beat + 1 < BEATS:
                await asyncio.sleep(max(0.0, pause - took))
    return len(requests) * BEATS, spent
