"""What all measures share: real servers on a real database and Redis, load over kept connections, and figures."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import asyncpg
import msgspec
import psutil
from sqlalchemy import make_url

from corndog import embedded
from corndog.settings import Settings
from corndog.store import counts
from corndog.store.migrate import upgrade
from tests.servers import free_port, start_server, stop_server

CONNECTIONS = 32
ROUNDS = 3

Request = tuple[str, str, bytes]


class Measure(msgspec.Struct, kw_only=True):
    """One figure, and what it is in relation to `of`."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    of: str = ""


class Server(msgspec.Struct, frozen=True):
    """A running server."""

    port: int
    process: psutil.Process

    def cpu_seconds(self) -> float:
        """Tell how much of a core all its processes have used so far."""
        times = [process.cpu_times() for process in [self.process, *self.process.children(recursive=True)]]
        return sum(time.user + time.system for time in times)


class Site:
    """A PostgreSQL and a Valkey for one measure after the other; each gets a database of its own."""

    def __init__(self, servers: embedded.Servers, scale: float) -> None:
        self._servers = servers
        self._scale = scale

    def scaled(self, number: int) -> int:
        """Make a size smaller for a quick look."""
        return max(1, round(number * self._scale))

    @asynccontextmanager
    async def database(self) -> AsyncIterator[tuple[str, Any]]:
        """Make a database with the schema: its URL, and a connection to it."""
        name = f"bench_{uuid4().hex[:8]}"
        url = make_url(self._servers.database_url)
        admin = await asyncpg.connect(_plain(url))
        await admin.execute(f"CREATE DATABASE {name}")
        url = url.set(database=name)
        await asyncio.to_thread(upgrade, url.render_as_string(hide_password=False))
        connection = await asyncpg.connect(_plain(url))
        try:
            yield url.render_as_string(hide_password=False), connection
        finally:
            await connection.close()
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
            await admin.close()

    @asynccontextmanager
    async def connection_to(self, database_url: str) -> AsyncIterator[Any]:
        """Connect to a database once more."""
        connection = await asyncpg.connect(_plain(make_url(database_url)))
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def server(self, database_url: str, *, uses_redis: bool = True, **settings: Any) -> AsyncIterator[Server]:  # noqa: ANN401
        """Run a server process on a database."""
        redis_url = self._servers.redis_url if uses_redis else ""
        port = free_port()
        wanted = Settings(database_url=database_url, redis_url=redis_url, **settings)
        process = await asyncio.to_thread(start_server, wanted, port)
        try:
            yield Server(port, psutil.Process(process.pid))
        finally:
            await asyncio.to_thread(stop_server, process)


@contextmanager
def site(scale: float) -> Iterator[Site]:
    """Start PostgreSQL and Valkey for the time of the block."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="corndog-bench-", dir="/tmp"))
        Path(directory).chmod(0o755)
        yield Site(stack.enter_context(embedded.start(Path(directory) / "data")), scale)


class Line:
    """A kept connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> "Line":
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, request: Request) -> bytes:
        """Send a request and read its answer, which must be a success."""
        method, path, body = request
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        answer = await self._reader.readexactly(int(head.partition("content-length:")[2].partition("\r\n")[0]))
        if int(head[9:12]) >= 300:  # noqa: PLR2004
            raise RuntimeError(f"{request[:2]}: {head[9:12]} {answer.decode()}")
        return answer

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


async def rate(
    port: int, requests: Sequence[Request], keep: Callable[[bytes], Any] | None = None
) -> tuple[float, list[Any]]:
    """Send all requests over the connections as fast as they are answered: how many a second, and what is kept."""
    waiting = iter(requests)
    kept: list[Any] = []

    async def send() -> None:
        line = await Line.to(port)
        for request in waiting:
            answer = await line.send(request)
            if keep:
                kept.append(keep(answer))
        line.close()

    began = perf_counter()
    await asyncio.gather(*(send() for _ in range(CONNECTIONS)))
    return len(requests) / (perf_counter() - began), kept


async def best_rates(ports: Sequence[int], count: int, *, submits_first: bool) -> list[float]:
    """Claim from servers in turn, round after round: the best rate of each. So all have the same weather."""
    best = [0.0] * len(ports)
    for _ in range(ROUNDS):
        for place, port in enumerate(ports):
            if submits_first:
                await rate(port, submits(count))
            claimed_per_second, _ = await rate(port, claims(count), claimed)
            best[place] = max(best[place], claimed_per_second)
    return best


def submits(count: int) -> list[Request]:
    """Make submits with a small payload."""
    return [("POST", "/v1/tasks", b'{"queue":"bench","payload":{"n":1}}')] * count


def claims(count: int) -> list[Request]:
    """Make claims."""
    return [("POST", "/v1/tasks/next", b'{"queue":"bench"}')] * count


def claimed(answer: bytes) -> tuple[str, int]:
    """Read which task a claim got."""
    [task] = msgspec.json.decode(answer)["tasks"]
    return task["id"], task["delivery"]


async def fill(connection: Any, count: int, *, phase: str = "ready", age: str = "0 s") -> None:  # noqa: ANN401
    """Write tasks into the benchmark's queue, past the API."""
    parks = phase == "parked"
    await connection.execute(
        f"""
        WITH counted AS (
            INSERT INTO count_deltas (queue, current_state, tasks)
            VALUES ('bench', 'submitted{"-scheduled" if parks else ""}', {count})
        )
        INSERT INTO tasks (
            id, queue, current_state, auto_target_state, phase, home_state, home_target, rank,
            submit_time, update_time, due_time, delivery,
            attempt, max_attempts, backoff, backoff_max, backoff_multiplier, jitter, lost, waiting_on
        )
        SELECT
            uuidv7(), 'bench', 'submitted{"-scheduled" if parks else ""}', 'submitted-working', '{phase}', 'submitted',
            'submitted-working', 0,
            now() - interval '{age}' + n * interval '1 microsecond', now(),
            {"now() + interval '1 day'" if parks else "NULL"}, 0,
            0, 3, interval '5 s', interval '1 hour', 2, 'full', 0, 0
        FROM generate_series(1, {count}) AS n
        """  # noqa: S608 - all of it is written in this folder
    )


async def recount(connection: Any) -> None:  # noqa: ANN401
    """Correct the counts after tasks were changed past the API."""
    await counts.correct(connection, await counts.wrong(connection))


def _plain(url: Any) -> str:  # noqa: ANN401
    plain: str = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return plain
