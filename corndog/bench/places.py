"""Where is measured: on servers and a database of our own, or on somebody's server, of which only HTTP is seen."""

import asyncio
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import asyncpg
from sqlalchemy import make_url
from sqlalchemy.engine import URL

from corndog import embedded
from corndog.bench import load, servers
from corndog.bench.errors import BenchError, LeftOut
from corndog.bench.figures import Findings
from corndog.bench.http import Address, Request
from corndog.bench.servers import Server
from corndog.bench.tidying import tidy
from corndog.settings import Settings
from corndog.store.migrate import upgrade

PATIENCE = 60  # seconds
NO_DATABASE = "it looks into the database itself, which a server's URL does not open"

NO_SERVERS = "it needs a server that is started for it, and there is only the one of the URL"


class Wishes:
    """What is to be measured, and how."""

    def __init__(self, names: Collection[str], *, scale: float, connections: int, per_second: float) -> None:
        self.names = names
        self.scale = scale
        self.connections = connections
        self.per_second = per_second


class Place(ABC):
    """What measures are given."""

    is_ours: bool

    def __init__(self, wishes: Wishes) -> None:
        self.connections = wishes.connections
        self.per_second = wishes.per_second
        self.queue = _new_queue()
        self.findings = Findings()
        self._wishes = wishes

    def wants(self, *names: str) -> bool:
        """Whether one of these figures is asked for."""
        return any(name in self._wishes.names for name in names)

    def scaled(self, number: int) -> int:
        """Make a size smaller for a quick look."""
        return max(1, round(number * self._wishes.scale))

    def seconds(self, number: float, least: float = 0.0) -> float:
        """Make a time shorter for a quick look, and never longer."""
        return max(least, number * min(1.0, self._wishes.scale))

    async def rate(
        self, server: Server, requests: Sequence[Request], keep: Callable[[bytes], Any] | None = None
    ) -> load.Rate:
        """Send all requests over all connections as fast as they are answered."""
        return await load.rate(server.address, self.connections, requests, keep)

    @abstractmethod
    async def about(self) -> str:
        """Say in a line what is measured."""

    async def close(self) -> None:  # noqa: B027 - most have nothing to do
        """End what was kept for more than one measure."""

    @abstractmethod
    def running(self, **settings: Any) -> AbstractAsyncContextManager[Server]:  # noqa: ANN401
        """Give a server whose queue is empty, for the time of the block.

        One of ours that is set up in the usual way is kept for the next measure, which gets it without tasks.
        """

    def database(self) -> AbstractAsyncContextManager[tuple[str, Any]]:
        """Make a database with the schema: its URL, and a connection to it.

        Raises:
            LeftOut: there is none to be had here.

        """
        raise LeftOut(NO_DATABASE)

    def connection_to(self, database_url: str) -> AbstractAsyncContextManager[Any]:
        """Connect to a database once more."""
        raise LeftOut(NO_DATABASE)

    def server(
        self,
        database_url: str,
        *,
        uses_redis: bool = True,
        **settings: Any,  # noqa: ANN401
    ) -> AbstractAsyncContextManager[Server]:
        """Run a server process on a database."""
        raise LeftOut(NO_SERVERS)


class Somewhere(Place):
    """Somebody's server."""

    is_ours = False

    def __init__(self, wishes: Wishes, address: Address) -> None:
        super().__init__(wishes)
        self._address = address

    async def about(self) -> str:
        """Name the server, after it has said that it takes work."""
        async with load.lines(self._address, 1) as [line]:
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await line.send(Request("GET", "/readyz"))
            except TimeoutError:
                raise BenchError(f"no answer from {self._address.url} for {PATIENCE} seconds") from None
        if not answer.startswith(b"{"):
            raise BenchError(f"{self._address.url} is not a corndog server")
        return self._address.url

    @asynccontextmanager
    async def running(self, **_settings: Any) -> AsyncIterator[Server]:  # noqa: ANN401
        """Give the server; at the end nothing is left in our queue."""
        fault: BenchError | None = None
        try:
            yield Server(self._address)
        except BenchError as error:
            fault = error
        finally:
            try:
                await tidy(self._address, self.queue)
            except BenchError as error:
                # What went wrong first says more.
                raise BenchError(f"{fault or error}; tasks may be left in queue {self.queue}") from None
        if fault:
            raise fault


class OwnPlace(Place):
    """A PostgreSQL and a Valkey of our own; each server has a database to itself."""

    is_ours = True

    def __init__(self, wishes: Wishes, running: embedded.Servers, settings: Settings) -> None:
        super().__init__(wishes)
        self._running = running
        self._settings = settings
        self._template = ""
        self._emptied: list[str] = []
        self._usual: Server | None = None
        self._stack = AsyncExitStack()

    async def about(self) -> str:
        """Name the database's version."""
        async with self.connection_to(self._running.database_url) as connection:
            version: str = await connection.fetchval("SHOW server_version")
        return f"PostgreSQL {version}"

    @asynccontextmanager
    async def running(self, **settings: Any) -> AsyncIterator[Server]:  # noqa: ANN401
        """Run a server on a database of its own, or give the usual one again."""
        if settings:
            async with self.database() as (url, _), self.server(url, **settings) as server:
                yield server
            return
        if self._usual is None:
            url, _ = await self._stack.enter_async_context(self.database())
            self._usual = await self._stack.enter_async_context(self.server(url))
        else:
            await self._empty(self._usual)
        yield self._usual

    async def close(self) -> None:
        """End the usual server."""
        await self._stack.aclose()

    @asynccontextmanager
    async def database(self) -> AsyncIterator[tuple[str, Any]]:
        """Copy an empty database that has the schema."""
        name = f"bench_{uuid4().hex[:8]}"
        async with self.connection_to(self._running.database_url) as admin:
            if not self._template:
                template = f"{name}_empty"
                await admin.execute(f"CREATE DATABASE {template}")
                await asyncio.to_thread(upgrade, self._url(template))
                self._emptied = await self._of_tasks(template)
                self._template = template
            await admin.execute(f"CREATE DATABASE {name} TEMPLATE {self._template}")
            try:
                async with self.connection_to(self._url(name)) as connection:
                    yield self._url(name), connection
            finally:
                await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @asynccontextmanager
    async def connection_to(self, database_url: str) -> AsyncIterator[Any]:
        """Connect to a database once more."""
        connection = await asyncpg.connect(_plain(make_url(database_url)))
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def server(
        self,
        database_url: str,
        *,
        uses_redis: bool = True,
        **settings: Any,  # noqa: ANN401
    ) -> AsyncIterator[Server]:
        """Run a server process; those on one database share what Redis keeps, others must not."""
        given = {name: getattr(self._settings, name) for name in Settings.__struct_fields__} | settings
        given |= {
            "database_url": database_url,
            "redis_url": self._running.redis_url if uses_redis else "",
            "redis_prefix": make_url(database_url).database,
        }
        async with servers.running(Settings(**given)) as server:
            yield server

    async def _empty(self, server: Server) -> None:
        """Forget all tasks; what Redis knows of them goes with the name of the queue."""
        async with self.connection_to(server.database_url) as connection:
            await connection.execute(f"TRUNCATE {', '.join(self._emptied)}")
        self.queue = _new_queue()

    async def _of_tasks(self, template: str) -> list[str]:
        """List the tables that are empty to begin with, but for the leases of a server that runs."""
        async with self.connection_to(self._url(template)) as connection:
            tables = [
                row[0] for row in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            ]
            filled = [table for table in tables if await connection.fetchval(f"SELECT EXISTS (SELECT FROM {table})")]  # noqa: S608
        return sorted(set(tables) - {*filled, "leader_leases"})

    def _url(self, name: str) -> str:
        return make_url(self._running.database_url).set(database=name).render_as_string(hide_password=False)


@contextmanager
def own_place(wishes: Wishes, settings: Settings) -> Iterator[Place]:
    """Start PostgreSQL and Valkey for the time of the block; their data go with them.

    Raises:
        BenchError: they can't run here.

    """
    with _directory() as directory:
        try:
            with embedded.start(directory / "data") as running:
                yield OwnPlace(wishes, running, settings)
        except embedded.EmbeddedError as error:
            raise BenchError(str(error)) from None


@contextmanager
def _directory() -> Iterator[Path]:
    """Make a directory for the time of the block."""
    # As root, a system user must get through to the data: not every TMPDIR lets it.
    directory = Path(tempfile.mkdtemp(prefix="corndog-bench-", dir="/tmp"))
    try:
        directory.chmod(0o755)
        yield directory
    finally:
        # What was killed while it made the cluster may have a last file to write.
        deadline = monotonic() + PATIENCE
        while directory.exists() and monotonic() < deadline:
            shutil.rmtree(directory, ignore_errors=True)


def _new_queue() -> str:
    return f"bench-{uuid4().hex[:8]}"


def _plain(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)
