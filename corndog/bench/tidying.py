"""Leaves nothing behind on somebody's server: what is ready is completed, and whatever else is live is canceled."""

import asyncio

import msgspec

from corndog.bench import load
from corndog.bench.errors import BenchError
from corndog.bench.http import Address, Line, Request
from corndog.bench.living import can_complete_many
from corndog.bench.tasks import claim, complete, complete_batch, deliveries

LINES = 8
SIZE = 100
PATIENCE = 60  # seconds for any step; there may be many


class _Live(msgspec.Struct):
    id: str


class _Page(msgspec.Struct):
    tasks: list[_Live]


async def tidy(address: Address, queue: str) -> None:
    """End all tasks of a queue.

    Raises:
        BenchError: the server doesn't let us.

    """
    try:
        many = await asyncio.wait_for(can_complete_many(address), PATIENCE)
        async with load.lines(address, LINES) as lines:
            await asyncio.gather(*(_complete(line, queue, many=many) for line in lines))
            while await asyncio.wait_for(_cancel(lines, queue), PATIENCE):
                pass
    except TimeoutError:
        raise BenchError(f"no answer from {address.url} for {PATIENCE} seconds") from None


async def _complete(line: Line, queue: str, *, many: bool) -> None:
    while held := deliveries(await asyncio.wait_for(line.send(claim(queue, SIZE)), PATIENCE)):
        for request in [complete_batch(held)] if many else map(complete, held):
            await asyncio.wait_for(line.send(request), PATIENCE)


async def _cancel(lines: list[Line], queue: str) -> bool:
    """Cancel some that are held or parked; tells if there were any."""
    page = await lines[0].send(Request("GET", f"/v1/tasks?queue={queue}&limit={SIZE}"))
    waiting = iter(msgspec.json.decode(page, type=_Page).tasks)
    found = False

    async def cancel(line: Line) -> None:
        nonlocal found
        for task in waiting:
            found = True
            await line.send(Request("POST", f"/v1/tasks/{task.id}/cancel", b"{}"))

    await asyncio.gather(*map(cancel, lines))
    return found
