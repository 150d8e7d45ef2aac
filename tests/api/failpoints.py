"""A server that kills or stops itself between taking hints and claiming tasks, and a supervisor that starts it again.

    python -m tests.api.failpoints PORT    serves, and starts again whenever it was killed

What it is to do lies in a directory, as files that tests make: while there is a `kill`, a share of all claims kills the
process; a `stop` stops one process once. What it has done it writes down there: `killed-…`, and `stopped-<pid>`.
"""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar
from uuid import uuid4

import msgspec
from granian import Granian
from granian.constants import Interfaces, Loops
from granian.log import LogLevels
from litestar import Litestar
from sqlalchemy import make_url
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.app import create_app
from corndog.settings import PREFIX, Settings
from corndog.store.engine import Connection
from corndog.store.statements import load
from tests.faults import FaultyDatabase
from tests.redis_servers import until_stopped
from tests.servers import ROOT, START_LIMIT, free_port, stop_server, wait_until_ready

DIRECTORY = "CORNDOG_TEST_FAILPOINTS"
SHARE = 0.5
"""How many of the claims kill their process while that is asked for."""

_T = TypeVar("_T")


class FailingDatabase(FaultyDatabase):
    """Kills or stops the process right before a claim by key."""

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        if query == load("claim_by_key"):
            _fail(Path(os.environ[DIRECTORY]))
        return await run()


def _fail(directory: Path) -> None:
    if (directory / "kill").exists() and random.random() < SHARE:
        (directory / f"killed-{uuid4().hex}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with suppress(FileNotFoundError):
        (directory / "stop").rename(directory / f"stopped-{os.getpid()}")
        os.kill(os.getpid(), signal.SIGSTOP)


def load_application() -> Litestar:
    """Make the server from environment variables, in a worker process that ends with its main process."""
    if main := multiprocessing.parent_process():

        def end() -> None:
            main.join()
            os._exit(1)

        Thread(target=end, daemon=True).start()
    settings = Settings.from_env()
    return create_app(settings, FailingDatabase(settings.database_url, pool_size=settings.pool_size))


def serve(port: int) -> None:
    """Serve until SIGTERM, or until the worker process was killed."""
    Granian(
        "tests.api.failpoints",
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        websockets=False,
        log_level=LogLevels.critical,
    ).serve(target_loader=load_application, wrap_loader=False)


def supervise(port: int) -> None:
    """Serve until SIGTERM; a server that was killed is followed by another."""
    is_told_to_end = Event()
    signal.signal(signal.SIGTERM, lambda *_: is_told_to_end.set())
    # A process that is forked inherits handlers, which would swallow the order to end before it has its own.
    os.register_at_fork(after_in_child=partial(signal.signal, signal.SIGTERM, signal.SIG_DFL))
    while not is_told_to_end.is_set():
        # Forked, it has loaded already all that a server needs.
        server = multiprocessing.get_context("fork").Process(target=serve, args=(port,))
        server.start()
        while server.is_alive():
            if is_told_to_end.is_set():
                server.terminate()
            server.join(0.05)


class Failpoints:
    """What such a server is to do, and what it has done."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def kill(self, *, enabled: bool) -> None:
        """Have claims kill their processes, or no longer."""
        if enabled:
            (self._directory / "kill").touch()
        else:
            (self._directory / "kill").unlink()

    @property
    def kills(self) -> int:
        """How many times a process has killed itself."""
        return len(list(self._directory.glob("killed-*")))

    def stop_once(self) -> None:
        """Have the next claim stop its process."""
        (self._directory / "stop").touch()

    def until_stopped(self) -> int:
        """Wait until a process has stopped itself; tells which."""
        poll = Retrying(
            retry=retry_if_result(lambda found: not found), wait=wait_fixed(0.01), stop=stop_after_delay(START_LIMIT)
        )
        [marker] = poll(lambda: list(self._directory.glob("stopped-*")))
        pid = int(marker.name.removeprefix("stopped-"))
        until_stopped(pid)
        return pid


@contextmanager
def running_failing_server(settings: Settings, directory: Path) -> Iterator[str]:
    """Run such a server on a free port; gives its URL."""
    port = free_port()
    settings = msgspec.structs.replace(settings, redis_prefix=make_url(settings.database_url).database or "")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.api.failpoints", str(port)],
        env=inherited | settings.to_env() | {DIRECTORY: str(directory)},
        cwd=ROOT,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url)
        yield url
    finally:
        stop_server(process)


if __name__ == "__main__":
    supervise(int(sys.argv[1]))
