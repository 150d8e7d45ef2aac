"""How fast single calls are, as ratios to an empty handler of the same server in the same run.

Starts the embedded PostgreSQL and one server process, sends each call over 32 connections, and prints a table.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import uvloop
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))

from corndog import embedded
from corndog.settings import Settings
from corndog.store.migrate import upgrade
from tests.servers import free_port, start_server, stop_server

CONNECTIONS = 32

Request = tuple[str, str, bytes]


class Measure(msgspec.Struct, kw_only=True):
    """One figure, and what it is in relation to `of`."""

    name: str
    value: float
    unit: str = "calls/s"
    ratio: float
    of: str = "empty"


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request) -> tuple[int, bytes]:
    """Send one request on a connection that is kept, and read its answer."""
    method, path, body = request
    writer.write(
        f"{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].partition("\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


async def rate(
    port: int, requests: Sequence[Request], keep: Callable[[bytes], Any] | None = None
) -> tuple[float, list[Any]]:
    """Send all requests over the connections as fast as they are answered; every answer must be a success."""
    waiting = iter(requests)
    kept: list[Any] = []

    async def send() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in waiting:
            status, answer = await exchange(reader, writer, request)
            if status >= 300:  # noqa: PLR2004
                raise RuntimeError(f"{request[:2]}: {status} {answer.decode()}")
            if keep:
                kept.append(keep(answer))
        writer.close()

    began = perf_counter()
    await asyncio.gather(*(send() for _ in range(CONNECTIONS)))
    return len(requests) / (perf_counter() - began), kept


def submits(count: int) -> list[Request]:
    """Make submits with a small payload."""
    return [("POST", "/v1/tasks", b'{"queue":"bench","payload":{"n":1}}')] * count


def claimed(answer: bytes) -> tuple[str, int]:
    """Read which task a claim got."""
    [task] = msgspec.json.decode(answer)["tasks"]
    return task["id"], task["delivery"]


async def measure(port: int, count: int) -> list[Measure]:
    """Take `count` tasks through their lives, call by call."""
    await rate(port, submits(CONNECTIONS * 4))
    empty, _ = await rate(port, [("GET", "/healthz", b"")] * count)
    results = {"empty": empty}
    results["submit"], _ = await rate(port, submits(count))
    results["claim"], tasks = await rate(port, [("POST", "/v1/tasks/next", b'{"queue":"bench"}')] * count, claimed)
    results["complete"], _ = await rate(
        port, [("POST", f"/v1/tasks/{task}/complete", b'{"delivery":%d}' % delivery) for task, delivery in tasks]
    )
    return [Measure(name=name, value=value, ratio=value / empty) for name, value in results.items()]


def main() -> None:
    """Run the measures and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=3000, help="how many tasks each round moves")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many rounds counts")
    parser.add_argument("--json", action="store_true", help="print one object for each measure")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="corndog-bench-", dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        with embedded.start(Path(directory) / "data") as servers:
            upgrade(servers.database_url)
            port = free_port()
            server = start_server(Settings(database_url=servers.database_url), port)
            try:
                rounds = [
                    uvloop.run(measure(port, wanted.tasks))
                    for _ in track(range(wanted.rounds), "measuring", console=Console(stderr=True))
                ]
            finally:
                stop_server(server)
    best = [max(measures, key=lambda measure: measure.ratio) for measures in zip(*rounds, strict=True)]
    if wanted.json:
        for result in best:
            print(msgspec.json.encode(result).decode())
        return
    table = Table("call", "calls/s", "ratio to empty", title=f"{CONNECTIONS} connections, one server process")
    for result in best:
        table.add_row(result.name, f"{result.value:,.0f}", f"{result.ratio:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
