"""Real server processes for tests."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import httpx
import msgspec
from sqlalchemy import make_url
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from corndog.cli.serving import BACKPRESSURE
from corndog.settings import PREFIX, Settings

NewDatabase: TypeAlias = Callable[[], AbstractAsyncContextManager[str]]
"""Makes a migrated database for the time of a block; gives its URL."""

START_LIMIT = 30
STOP_LIMIT = 20
ROOT = Path(__file__).parent.parent


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_server(
    settings: Settings, port: int, *, workers: int = 1, target: str = "corndog.app:from_environment"
) -> subprocess.Popen[bytes]:
    """Start a server process and wait until it takes work."""
    if settings.redis_url:
        # Servers on one database share what Redis keeps, others must not.
        database = make_url(settings.database_url).database or ""
        settings = msgspec.structs.replace(settings, redis_prefix=database)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "granian", "--interface", "asgi", "--factory", target),
            *("--host", "127.0.0.1", "--port", str(port), "--workers", str(workers), "--loop", "uvloop", "--no-ws"),
            *("--log-level", "warning", "--backpressure", str(BACKPRESSURE)),
        ],
        env=inherited | settings.to_env(),
        cwd=ROOT,
    )
    try:
        wait_until_ready(f"http://127.0.0.1:{port}")
    except BaseException:
        stop_server(process)
        raise
    return process


def wait_until_ready(url: str) -> None:
    """Wait until a server answers that it takes work."""
    for attempt in Retrying(
        stop=stop_after_delay(START_LIMIT), wait=wait_fixed(0.05), retry=retry_if_exception_type(httpx.HTTPError)
    ):
        with attempt:
            httpx.get(f"{url}/readyz", timeout=5).raise_for_status()


def stop_server(process: subprocess.Popen[bytes]) -> None:
    """Ask a server process to end, and see that it does."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


@contextmanager
def running_server(
    settings: Settings, *, workers: int = 1, target: str = "corndog.app:from_environment"
) -> Iterator[str]:
    """Run a server process on a free port; gives its URL."""
    port = free_port()
    process = start_server(settings, port, workers=workers, target=target)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop_server(process)
