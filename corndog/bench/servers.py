"""Server processes of our own."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from corndog.bench.errors import BenchError, RefusedError
from corndog.bench.http import Address, Line, Request
from corndog.settings import PREFIX, Settings

if TYPE_CHECKING:
    import psutil

LOOPBACK = "127.0.0.1"
GRACE = 40  # seconds until a server is killed; it takes 30 for itself
POLL_INTERVAL = 0.05


class Server(msgspec.Struct, frozen=True):
    """A running server; whose process and database are ours to look at, if it is one of ours."""

    address: Address
    process: "psutil.Process | None" = None
    database_url: str = ""

    def cpu_seconds(self) -> float:
        """Tell how much of a core all its processes have used so far."""
        times = [process.cpu_times() for process in self._processes()]
        return sum(time.user + time.system for time in times)

    def memory(self) -> int:
        """Tell how many bytes of memory its worker has: the largest process, as the others only look after it."""
        return max(process.memory_info().rss for process in self._processes()[1:])

    def _processes(self) -> "list[psutil.Process]":
        assert self.process
        return [self.process, *self.process.children(recursive=True)]


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Server]:
    """Run a server process for the time of the block; if we are killed, it ends with us."""
    import psutil  # noqa: PLC0415 - of the `dev` extra, as all that runs servers of our own

    address = Address(LOOPBACK, _free_port())
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    where = ["--host", address.host, "--port", str(address.port)]
    with subprocess.Popen(  # noqa: S603, ASYNC220 - ourselves, and started at once
        [sys.executable, "-P", "-m", "corndog.cli", "serve", *where, "--until-stdin-closes"],
        env=inherited | settings.to_env(),
        stdin=subprocess.PIPE,
        stdout=sys.stderr,
        start_new_session=True,  # out of reach of Ctrl-C: it is ended before its database
    ) as process:
        try:
            await _until_ready(process, address)
            yield Server(address, psutil.Process(process.pid), settings.database_url)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, GRACE)
            process.kill()


async def _until_ready(process: "subprocess.Popen[bytes]", address: Address) -> None:
    while process.poll() is None:
        with suppress(BenchError):
            line = await Line.to(address)
            try:
                await line.send(Request("GET", "/readyz"))
            except RefusedError as error:
                raise BenchError(f"the server does not get ready: {error}") from None
            else:
                return
            finally:
                line.close()
        await asyncio.sleep(POLL_INTERVAL)
    raise BenchError("the server ended while starting; the messages above say why")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
