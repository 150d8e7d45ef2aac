"""1,000 idle long polls: what they cost the server, and the database."""

import asyncio
from collections.abc import AsyncIterator
from time import perf_counter
from typing import Any

import msgspec

from benchmarks.harness import Line, Measure, Server, Site

POLLS = 1000
SECONDS = 10
_SETTLING = 12
"""Seconds after which idle sessions have handed in their statistics, too."""
_POLL = ("POST", "/v1/tasks/next", b'{"queue":"idle","wait":60}')
_POLL_OF_MANY = ("POST", "/v1/tasks/next", b'{"queue":"idle-%d","wait":60}')


async def measure(site: Site) -> AsyncIterator[Measure]:
    """Leave polls alone for a while: all on one queue, and each on a queue of its own."""
    # Without the loops, nothing but polls could send a statement.
    async with site.database() as (url, connection), site.server(url, scheduler=False) as server:
        for name, requests in {
            "idle": [_POLL] * site.scaled(POLLS),
            "idle-queues": [(*_POLL_OF_MANY[:2], _POLL_OF_MANY[2] % n) for n in range(site.scaled(POLLS))],
        }.items():
            lines = await asyncio.gather(*(Line.to(server.port) for _ in requests))
            polls = [asyncio.create_task(line.send(request)) for line, request in zip(lines, requests, strict=True)]
            await asyncio.sleep(_SETTLING)
            async for measured in _watched(name, server, connection):
                yield measured
            assert not any(poll.done() for poll in polls)
            submitter = await Line.to(server.port)
            await submitter.send(
                ("POST", "/v1/tasks", msgspec.json.encode({"queue": msgspec.json.decode(requests[-1][2])["queue"]}))
            )
            await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
            for poll in polls:
                poll.cancel()
            for line in lines:
                line.close()
            await asyncio.sleep(1)


async def _watched(name: str, server: Server, connection: Any) -> AsyncIterator[Measure]:  # noqa: ANN401
    began, spent, sent = perf_counter(), server.cpu_seconds(), await _statements(connection)
    await asyncio.sleep(SECONDS)
    seconds, cpu = perf_counter() - began, server.cpu_seconds() - spent
    busy = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'corndog' AND state <> 'idle'"
    )
    yield Measure(name=name, value=100 * cpu / seconds, unit="% of a core", ratio=cpu / seconds, of="one core")
    yield Measure(name=f"{name}-statements", value=await _statements(connection) - sent - _OWN, unit="statements")
    yield Measure(name=f"{name}-connections", value=busy, unit="connections in use")


_OWN = 1
"""The statements of ours between the two counts."""


async def _statements(connection: Any) -> int:  # noqa: ANN401
    """Count what all sessions of the server have sent so far: each statement is a transaction of its own."""
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    sent: int = await connection.fetchval(
        "SELECT sum(xact_commit + xact_rollback)::int8 FROM pg_stat_database WHERE datname = current_database()"
    )
    return sent
