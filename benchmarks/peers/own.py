"""corndog's adapter: its HTTP calls over kept connections."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import asyncpg
import msgspec
import uvloop

from benchmarks.peers.adapters.report import BATCH, PAYLOADS, VARIANT, batches, proved, say, timed
from corndog.bench.http import MINIMAL, Address, Line, Request

PORT = int(os.environ.get("CORNDOG_PORT", "0"))
BATCH_CONNECTIONS = 4
ONE = {"queue": "bench"}
MANY = {"queue": "bench", "count": BATCH}
CONNECTIONS = 32


def post(path: str, body: object) -> Request:
    """Make a request; batches are answered without the tasks."""
    return Request("POST", path, msgspec.json.encode(body), MINIMAL if VARIANT == "batch" else "")


def submits() -> Iterator[Request]:
    """Submit all tasks, one or a hundred in a call."""
    if VARIANT == "batch":
        for payloads in batches():
            tasks = [{"queue": "bench", "payload": payload} for payload in payloads]
            yield post("/v1/tasks/batch", {"tasks": tasks})
    else:
        for payload in PAYLOADS:
            yield post("/v1/tasks", {"queue": "bench", "payload": payload})


async def single(line: Line) -> int:
    """Claim a task, complete it, and so on until there is none."""
    ended = 0
    while tasks := msgspec.json.decode(await line.send(post("/v1/tasks/next", ONE)))["tasks"]:
        await line.send(post(f"/v1/tasks/{tasks[0]['id']}/complete", {"delivery": tasks[0]["delivery"]}))
        ended += 1
    return ended


async def carry(line: Line) -> int:
    """Complete each task with a claim of the next."""
    ended = 0
    tasks = msgspec.json.decode(await line.send(post("/v1/tasks/next", ONE)))["tasks"]
    while tasks:
        body = {"delivery": tasks[0]["delivery"], "claim": ONE}
        answer = await line.send(post(f"/v1/tasks/{tasks[0]['id']}/complete", body))
        tasks = msgspec.json.decode(answer)["claimed"]["tasks"]
        ended += 1
    return ended


async def batch(line: Line) -> int:
    """Complete a hundred tasks with a claim of the next hundred."""
    ended = 0
    tasks = msgspec.json.decode(await line.send(post("/v1/tasks/next", MANY)))["tasks"]
    while tasks:
        held = [{"id": task["id"], "delivery": task["delivery"]} for task in tasks]
        answer = msgspec.json.decode(await line.send(post("/v1/tasks/complete", {"tasks": held, "claim": MANY})))
        tasks = answer["claimed"]["tasks"]
        ended += len(held)
    return ended


DRAINS = {"single": single, "carry": carry, "batch": batch}


async def lacking(line: Line) -> str:
    """Say what this server can't do yet, by its own document."""
    document: dict[str, Any] = msgspec.json.decode(await line.send(Request("GET", "/openapi.json")))
    if VARIANT == "batch" and "/v1/tasks/complete" not in document["paths"]:
        return "this server has no POST /v1/tasks/complete"
    complete = msgspec.json.encode(document["paths"]["/v1/tasks/{id}/complete"]["post"]["requestBody"]).decode()
    schema = complete.partition("#/components/schemas/")[2].partition('"')[0]
    taken = document["components"]["schemas"].get(schema, {}).get("properties", {})
    if VARIANT == "carry" and "claim" not in taken:
        return "this server's POST /v1/tasks/{id}/complete takes no claim"
    return ""


async def main() -> None:
    """Take all tasks through their lives."""
    width = BATCH_CONNECTIONS if VARIANT == "batch" else CONNECTIONS
    lines = [await Line.to(Address("127.0.0.1", PORT)) for _ in range(width)]
    if lacks := await lacking(lines[0]):
        say(lacks=lacks)
        return
    waiting = submits()

    async def submit(line: Line) -> None:
        for request in waiting:
            await line.send(request)

    with timed("produce"):
        await asyncio.gather(*map(submit, lines))
    with timed("drain"):
        ended = sum(await asyncio.gather(*map(DRAINS[VARIANT], lines)))
    connection = await asyncpg.connect()
    done = await connection.fetchval("SELECT count(*) FROM archived_tasks WHERE phase = 'completed' AND delivery = 1")
    await connection.close()
    proved("corndog", ran=ended, stored=done)


if __name__ == "__main__":
    uvloop.run(main())
