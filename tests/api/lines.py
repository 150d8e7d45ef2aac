"""The line between a server and its database, to be cut or blocked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from sqlalchemy import make_url

_PORT = 5432


class Line:
    """A proxy on a Unix socket; `url` is that of the database, through it."""

    def __init__(self, database_url: str, directory: Path) -> None:
        url = make_url(database_url)
        self._target = f"{url.query['host']}/.s.PGSQL.{url.query['port']}"
        self._socket = directory / f".s.PGSQL.{_PORT}"
        self.url = url.set(query={"host": str(directory), "port": str(_PORT)}).render_as_string(hide_password=False)
        self._flows = asyncio.Event()
        self._flows.set()
        self._ends: set[asyncio.StreamWriter] = set()
        self.waiting = 0
        """On how many connections something waits to be let through."""
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Let connections through, those that were blocked, too."""
        self._flows.set()
        if self._server is None:
            self._server = await asyncio.start_unix_server(self._connect, self._socket)

    async def cut(self) -> None:
        """Lose all connections, and refuse new ones, as a database does that is down."""
        if self._server is not None:
            self._server.close()
            self._socket.unlink()
            self._server = None
        for end in self._ends:
            end.transport.abort()
        self._flows.set()

    def block(self) -> None:
        """Let nothing through, and keep all connections, as a network does that loses all packets."""
        self._flows.clear()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_unix_connection(self._target)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, far_writer))
                both.create_task(self._carry(far_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            with suppress(OSError):
                while data := await reader.read(65536):
                    self.waiting += 1
                    await self._flows.wait()
                    self.waiting -= 1
                    writer.write(data)
                    await writer.drain()
        finally:
            self._ends.discard(writer)
            writer.close()


@asynccontextmanager
async def line(database_url: str, directory: Path) -> AsyncIterator[Line]:
    """Put a line in between."""
    between = Line(database_url, directory)
    await between.open()
    try:
        yield between
    finally:
        await between.cut()
