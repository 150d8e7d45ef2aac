"""1,000 idle long polls: what they cost the server, and the database."""

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from corndog.bench.errors import BenchError
from corndog.bench.figures import Figure, Figures
from corndog.bench.http import Request
from corndog.bench.load import lines
from corndog.bench.places import Place
from corndog.bench.servers import Server
from corndog.bench.tasks import claim, submits

_KINDS = ("idle", "idle-queues")
FIGURES = tuple(f"{kind}{what}" for kind in _KINDS for what in ("", "-statements", "-connections"))
POLLS = 1000
SECONDS = 10
_SETTLING = 12
"""Seconds after which idle sessions have handed in their statistics, too."""
_QUICK = 10
"""How many times quicker a quick look may be before it shortens that, too."""


async def measure(place: Place) -> Figures:
    """Leave polls alone for a while: all on one queue, and each on a queue of its own."""
    count = place.scaled(POLLS)
    polls = {
        "idle": [claim(place.queue, wait=60)] * count,
        "idle-queues": [claim(f"{place.queue}-{number}", wait=60) for number in range(count)],
    }
    # Without the loops, nothing but polls could send a statement.
    async with place.database() as (url, connection), place.server(url, scheduler=False) as server:
        for kind, requests in polls.items():
            if place.wants(*(name for name in FIGURES if name.startswith(kind))):
                last = place.queue if kind == "idle" else f"{place.queue}-{count - 1}"
                for figure in await _watch(place, kind, requests, last, server, connection):
                    yield figure
        # A server that is told to end has polls whose clients are gone still in hand for a moment.
        await asyncio.sleep(place.seconds(_SETTLING, least=0.5))


async def _watch(
    place: Place,
    kind: str,
    requests: Sequence[Request],
    last: str,
    server: Server,
    connection: Any,  # noqa: ANN401
) -> list[Figure]:
    async with lines(server.address, len(requests)) as waiting, lines(server.address, 1) as [submitter]:
        polls = [asyncio.create_task(line.send(request)) for line, request in zip(waiting, requests, strict=True)]
        try:
            await asyncio.sleep(min(_SETTLING, place.seconds(_SETTLING * _QUICK)))
            figures = await _cost(kind, place.seconds(SECONDS, least=0.2), server, connection)
            if any(poll.done() for poll in polls):
                raise BenchError("a poll ended before there was a task")
            await submitter.send(submits(last, 1)[0])
            await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for poll in polls:
                poll.cancel()
    return figures


async def _cost(kind: str, pause: float, server: Server, connection: Any) -> list[Figure]:  # noqa: ANN401
    began, spent, sent = perf_counter(), server.cpu_seconds(), await _statements(connection)
    await asyncio.sleep(pause)
    seconds, cpu = perf_counter() - began, server.cpu_seconds() - spent
    busy = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'corndog' AND state <> 'idle'"
    )
    return [
        Figure(name=kind, value=100 * cpu / seconds, unit="% of a core", ratio=cpu / seconds, of="one core"),
        Figure(name=f"{kind}-statements", value=await _statements(connection) - sent - _OWN, unit="statements"),
        Figure(name=f"{kind}-connections", value=busy, unit="connections in use"),
    ]


_OWN = 1
"""The statements of ours between the two counts."""


async def _statements(connection: Any) -> int:  # noqa: ANN401
    """Count what all sessions of the server have sent so far: each statement is a transaction of its own."""
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    sent: int = await connection.fetchval(
        "SELECT sum(xact_commit + xact_rollback)::int8 FROM pg_stat_database WHERE datname = current_database()"
    )
    return sent
