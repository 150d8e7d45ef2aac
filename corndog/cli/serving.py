"""The server, and the loops alone: processes that run until a signal ends them."""

import asyncio
import gc
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread

from granian import Granian
from granian.constants import Interfaces, Loops
from granian.log import LogLevels
from litestar import Litestar

from corndog import app
from corndog.cli.environment import read_settings, require_ready_database, require_redis_url
from corndog.cli.listening import free_address
from corndog.cli.output import say

STDIN = 0
BACKPRESSURE = 16_384
"""How many requests one worker process has in hand at most; most of them wait for tasks."""

GARBAGE = 20_000
"""How many objects more than went come before the young ones are searched for cycles."""

GRACE = 30  # seconds that a worker gets to finish the requests in flight


def serve(host: str, port: int, workers: int, *, until_stdin_closes: bool) -> None:
    """Serve HTTP."""
    if until_stdin_closes:
        _end_after(lambda: os.read(STDIN, 1))
    settings = read_settings()
    require_redis_url(settings.redis_url)
    require_ready_database(settings.database_url)
    address = free_address(host, port)
    _allow_connections()
    # A forked worker inherits the main process's handlers, which would swallow the order to end before it has its own.
    os.register_at_fork(after_in_child=partial(signal.signal, signal.SIGTERM, signal.SIG_DFL))
    if not until_stdin_closes:  # who holds our stdin speaks for us
        say(f"listening on {address.url}")
    Granian(
        "corndog.app",
        address=address.host,
        port=address.port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        websockets=False,
        workers=workers,
        workers_kill_timeout=GRACE,
        backpressure=BACKPRESSURE,
        log_level=LogLevels.warning,
    ).serve(target_loader=load_application, wrap_loader=False)


def load_application() -> Litestar:
    """Make the application in a worker process."""
    if main := multiprocessing.parent_process():
        # Ctrl-C goes to the terminal's process group. The main process gets it and ends its workers, in order; were it
        # killed, they must not hold the port any longer.
        os.setpgid(0, 0)
        _end_after(main.join)
    application = app.from_environment()
    # What is there now stays to the end, and a request leaves no cycles: looking for some is to be rare.
    gc.freeze()
    gc.set_threshold(GARBAGE)
    return application


def run_loops() -> None:
    """Run the loops without a server."""
    settings = read_settings()
    require_ready_database(settings.database_url)

    async def run() -> None:
        stop = asyncio.Event()
        for way in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(way, stop.set)
        say("the loops run")
        await app.run_scheduler(settings, stop)

    asyncio.run(run())


def _allow_connections() -> None:
    """Raise the limit of open files as far as may be: each waiting client has one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS says "unlimited", and means less
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _end_after(wait: Callable[[], object]) -> None:
    """End this process, without ceremony, once `wait` returns."""

    def end() -> None:
        wait()
        os._exit(1)

    Thread(target=end, daemon=True).start()
