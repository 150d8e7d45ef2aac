"""How fast parked tasks are released that are due at once, and how late a single one is."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from time import perf_counter

import msgspec

from benchmarks.harness import Line, Measure, Site, fill, recount

TASKS = 100_000
SINGLES = 200
SPACING = 0.037
"""Seconds between two single tasks that are due: no multiple of anything that happens regularly."""

LEFT = "SELECT EXISTS (SELECT FROM tasks WHERE phase = 'parked')"
RAW = """
UPDATE tasks SET current_state = home_state, auto_target_state = home_target, phase = 'ready', due_time = NULL,
    update_time = statement_timestamp()
WHERE phase = 'parked'
"""


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Release many in bulk, in relation to one plain UPDATE of as many rows; then see when single ones come."""
    count = site.scaled(TASKS)
    async with site.database() as (url, connection):
        await fill(connection, count, phase="parked")
        began = perf_counter()
        await connection.execute(RAW)
        raw = count / (perf_counter() - began)
    async with site.database() as (url, connection):
        await fill(connection, count, phase="parked")
        async with site.server(url) as server:
            await connection.execute("UPDATE tasks SET due_time = now()")
            began = perf_counter()
            while await connection.fetchval(LEFT):  # noqa: ASYNC110 - the loop tells nobody that it is done
                await asyncio.sleep(0.05)
            released = count / (perf_counter() - began)
            await connection.execute("TRUNCATE tasks")
            await recount(connection)
            late = sorted(await _lateness(server.port, site.scaled(SINGLES)))
    yield Measure(name="release", value=released, unit="tasks/s", ratio=released / raw, of="one plain UPDATE")
    yield Measure(name="late-median", value=late[len(late) // 2] * 1000, unit="ms")
    yield Measure(name="late-p99", value=late[int(len(late) * 0.99)] * 1000, unit="ms")


async def _lateness(port: int, number: int) -> list[float]:
    """Submit tasks that are due one after the other, and tell how late a waiting claim gets each."""
    line = await Line.to(port)
    for place in range(number):
        body = msgspec.json.encode({"queue": "late", "delay": round(2 + place * SPACING, 6)})
        await line.send(("POST", "/v1/tasks", body))
    line.close()
    waiting = iter(range(number))

    async def take() -> list[float]:
        line = await Line.to(port)
        late = []
        for _ in waiting:
            answer = await line.send(("POST", "/v1/tasks/next", b'{"queue":"late","wait":30}'))
            [task] = msgspec.json.decode(answer)["tasks"]
            found = await line.send(("GET", f"/v1/tasks/{task['id']}/runs", b""))
            claim_time = datetime.fromisoformat(msgspec.json.decode(found)["runs"][0]["claim_time"])
            late.append((claim_time - datetime.fromisoformat(task["submit_time"])).total_seconds())
        line.close()
        return late

    since_submit = sorted(seconds for late in await asyncio.gather(*(take() for _ in range(4))) for seconds in late)
    return [seconds - (2 + place * SPACING) for place, seconds in enumerate(since_submit)]
