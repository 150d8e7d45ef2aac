"""10,000 held tasks with a lease of 60 s and a heartbeat every 5 s: how often a row is written, and how fast it is."""

import asyncio
from collections.abc import AsyncIterator
from time import perf_counter
from typing import Any

import msgspec

from benchmarks.harness import Line, Measure, Site, rate, submits

TASKS = 10_000
LEASE = 60
BEAT = 5
GROUP = 100


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Send heartbeats for one lease's time, and count the rows that were written."""
    count = site.scaled(TASKS)
    async with site.database() as (url, connection), site.server(url) as server:
        await rate(server.port, submits(count))
        body = b'{"queue":"bench","count":%d,"override_timeout":%d}' % (GROUP, LEASE)
        _, groups = await rate(server.port, [("POST", "/v1/tasks/next", body)] * (count // GROUP), _deliveries)
        before = await _written(connection)
        beats = 0
        spent = 0.0
        for beat in range(LEASE // BEAT):
            began = perf_counter()
            await _beat(server.port, groups)
            beats += len(groups)
            spent += perf_counter() - began
            if beat + 1 < LEASE // BEAT:
                await asyncio.sleep(max(0.0, BEAT - (perf_counter() - began)))
        written = await _written(connection) - before
    yield Measure(name="heartbeats", value=written / count, unit="row updates per task and lease")
    yield Measure(name="heartbeat-calls", value=beats / spent, unit=f"calls/s of {GROUP} deliveries")


async def _beat(port: int, groups: list[list[Any]]) -> None:
    line = await Line.to(port)
    for deliveries in groups:
        answer = await line.send(("POST", "/v1/tasks/heartbeat", msgspec.json.encode({"deliveries": deliveries})))
        assert all(delivery["status"] == "held" for delivery in msgspec.json.decode(answer)["deliveries"])
    line.close()


def _deliveries(answer: bytes) -> list[Any]:
    return [{"id": task["id"], "delivery": task["delivery"]} for task in msgspec.json.decode(answer)["tasks"]]


async def _written(connection: Any) -> int:  # noqa: ANN401
    await asyncio.sleep(2)  # until the sessions have handed in their statistics
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    written: int = await connection.fetchval("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'tasks'")
    return written
