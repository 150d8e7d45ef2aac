"""Leaves nothing behind on somebody's server: what is ready is completed, and whatever else is live is canceled."""

import msgspec

from corndog.bench import load
from corndog.bench.http import Address, Line, Request
from corndog.bench.tasks import BATCH, claim, completes, deliveries


class _Live(msgspec.Struct):
    id: str


class _Page(msgspec.Struct):
    tasks: list[_Live]


async def tidy(address: Address, connections: int, queue: str) -> None:
    """End all tasks of a queue."""
    line = await Line.to(address)
    try:
        while held := deliveries(await line.send(claim(queue, BATCH))):
            await load.rate(address, connections, completes(held))
        listing = Request("GET", f"/v1/tasks?queue={queue}&limit=1000")
        while live := msgspec.json.decode(await line.send(listing), type=_Page).tasks:
            cancels = [Request("POST", f"/v1/tasks/{task.id}/cancel", b"{}") for task in live]
            await load.rate(address, connections, cancels)
    finally:
        line.close()
