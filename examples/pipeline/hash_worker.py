"""The first worker: hash each file and hand its task on to the state `count`.

It runs several tasks at a time. On SIGTERM or SIGINT each of them is finished and no other is pulled.
"""

import asyncio
import hashlib
import os
import random
import signal
import sys
from contextlib import suppress
from typing import Annotated

import httpx
import typer
from corndog_calls import AwayError, Corndog, RefusedError, Task
from corpus import from_payload


def sha256_of(path: bytes) -> str:
    """Hash the file's bytes."""
    with open(path, "rb") as file:  # noqa: PTH123 (a path of any bytes)
        return hashlib.file_digest(file, "sha256").hexdigest()


async def hash_one(corndog: Corndog, task: Task, next_state: str) -> None:
    """Hash the task's file; one that can't be read ends here, with the reason as its result."""
    payload = task["payload"]
    try:
        digest = await asyncio.to_thread(sha256_of, from_payload(payload))
    except OSError as error:
        await corndog.complete(task, payload | {"error": error.strerror or str(error)})
    else:
        await corndog.move(task, next_state, payload | {"sha256": digest})


async def pull_until(
    stop: asyncio.Event, corndog: Corndog, queue: str, states: tuple[str, str], worker_id: str
) -> None:
    """Pull and hash one task after the other, resting while there is none."""
    state, next_state = states
    while not stop.is_set():
        task = await corndog.claim(queue, state, worker_id)
        if task is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), timeout=random.uniform(0.1, 0.4))
            continue
        try:
            await hash_one(corndog, task, next_state)
        except RefusedError as refusal:
            if not refusal.no_longer_ours:
                raise
            print(f"hash worker: task {task['id']} is no longer ours ({refusal})", file=sys.stderr)


async def work(server: str, queue: str, states: tuple[str, str], concurrency: int) -> None:
    """Run the pullers until a signal comes."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with httpx.AsyncClient(base_url=server, timeout=30) as http, asyncio.TaskGroup() as pullers:
        for index in range(concurrency):
            worker_id = f"hash-{os.getpid()}-{index}"
            pullers.create_task(pull_until(stop, Corndog(http), queue, states, worker_id))


def main(
    queue: Annotated[str, typer.Option(help="Queue to pull from.")],
    server: Annotated[str, typer.Option(help="Address of the corndog server.")] = "http://127.0.0.1:8080",
    state: Annotated[str, typer.Option(help="State to pull from.")] = "submitted",
    next_state: Annotated[str, typer.Option(help="State to hand on to.")] = "count",
    concurrency: Annotated[int, typer.Option(min=1, help="Files hashed at a time.")] = 8,
) -> None:
    """Hash the files that a queue's tasks name."""
    try:
        asyncio.run(work(server, queue, (state, next_state), concurrency))
    except ExceptionGroup as group:
        failure = group.exceptions[0]
        if not isinstance(failure, httpx.TransportError | AwayError | RefusedError):
            raise
        print(f"hash worker: {failure}", file=sys.stderr)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
