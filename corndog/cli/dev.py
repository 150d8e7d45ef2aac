"""`corndog dev`: database, accelerator and server on this machine, nothing installed before and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

import httpx
import msgspec

from corndog import __version__, embedded
from corndog.cli.environment import upgrade
from corndog.cli.listening import Address, free_address
from corndog.cli.output import Failed, say, show_json, to_people, warn
from corndog.settings import PREFIX, Settings, SettingsError

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SWEEP_INTERVAL = 1.0
POLL_INTERVAL = 0.1
SERVER_GRACE = 40  # seconds until the server is killed; it takes 30 for itself


def run(data_dir: Path | None, host: str, port: int, workers: int, *, as_json: bool) -> None:
    """Run everything until a signal ends it.

    Raises:
        Failed: something did not start, or has ended by itself; nothing of it runs any more.

    """
    settings, address = _settings(), free_address(host, port)
    interrupt = Interrupt()
    for way in ENDING_SIGNALS:
        signal.signal(way, interrupt.come)
    try:
        with ExitStack() as stack:
            try:
                progress = stack.enter_context(to_people(on_stderr=True).status("starting PostgreSQL and Valkey"))
                servers = stack.enter_context(embedded.start(data_dir or embedded.default_data_dir()))
                progress.update("migrating the database")
                upgrade(servers.database_url)
                progress.update("starting the server")
                server = stack.enter_context(_server(settings, servers, address, workers))
                _wait_until_it_answers(server, address, interrupt)
                progress.stop()
                _announce(servers, address, as_json=as_json)
                _watch(server, servers, interrupt)
            finally:
                _ignore_signals()
    except KeyboardInterrupt:
        if not as_json:
            say("stopped")
    except embedded.EmbeddedError as error:
        raise Failed(str(error)) from None


class Interrupt:
    """A signal to end, which raises KeyboardInterrupt wherever it comes.

    Python drops what is raised in a destructor or in a callback of a weak reference: `check` raises it again.
    """

    def __init__(self) -> None:
        self._has_come = False

    def come(self, _signal: int, _frame: FrameType | None) -> None:
        """End, as the handler of a signal."""
        _ignore_signals()
        self._has_come = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """End if the signal has come."""
        if self._has_come:
            raise KeyboardInterrupt


def _ignore_signals() -> None:
    """See to it that the end, once it has begun, is not interrupted by more impatience."""
    for way in ENDING_SIGNALS:
        signal.signal(way, signal.SIG_IGN)


def _settings() -> Settings:
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        raise Failed(str(error)) from None
    for name in ("DATABASE_URL", "REDIS_URL"):
        if PREFIX + name in os.environ:
            warn(f"{PREFIX}{name} is ignored: `corndog dev` runs its own; use `corndog serve` for another")
    if f"{PREFIX}CLEANUP_INTERVAL" in os.environ:
        return settings
    return msgspec.structs.replace(settings, cleanup_interval=SWEEP_INTERVAL)


@contextmanager
def _server(
    settings: Settings, servers: embedded.Servers, address: Address, workers: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `corndog serve` for the time of the block; if we are killed, it ends with us."""
    settings = msgspec.structs.replace(settings, database_url=servers.database_url, redis_url=servers.redis_url)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    where = ["--host", address.host, "--port", str(address.port), "--workers", str(workers)]
    with subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-m", "corndog.cli", "serve", *where, "--until-stdin-closes"],
        env=inherited | settings.to_env(),
        stdin=subprocess.PIPE,
        stdout=sys.stderr,
        start_new_session=True,  # out of reach of Ctrl-C: it is ended before its database
    ) as server:
        try:
            yield server
        finally:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(SERVER_GRACE)
            server.kill()


def _wait_until_it_answers(server: subprocess.Popen[bytes], address: Address, interrupt: Interrupt) -> None:
    with httpx.Client(trust_env=False) as client:
        while server.poll() is None:
            interrupt.check()
            with suppress(httpx.TransportError):
                client.get(f"{address.url}/healthz")
                return
            time.sleep(POLL_INTERVAL)
    raise Failed("the server ended while starting; the messages above say why")


def _announce(servers: embedded.Servers, address: Address, *, as_json: bool) -> None:
    if as_json:
        show_json(
            {
                "url": address.url,
                "database_url": servers.database_url,
                "redis_url": servers.redis_url,
                "data_dir": str(servers.data_dir),
            }
        )
        sys.stdout.flush()
        return
    say(f"corndog {__version__} is running on {address.url}", style="bold")
    say(f"  docs        {address.url}/docs")
    say(f"  PostgreSQL  {servers.database_url}")
    say(f"  Valkey      {servers.redis_url}")
    say(f"  data        {servers.data_dir}")
    say("Try:")
    say(f"  curl -s {address.url}/v1/tasks -H 'Content-Type: application/json' -d '{{\"payload\": \"hello\"}}'")
    say("Ctrl-C stops all of it; the data stay.")


def _watch(server: subprocess.Popen[bytes], servers: embedded.Servers, interrupt: Interrupt) -> None:
    """Wait for a signal, which raises KeyboardInterrupt; anything that ends by itself is a failure."""
    while server.poll() is None:
        interrupt.check()
        if servers.revive():
            warn("Valkey had ended, and runs again; nothing is lost")
        if ended := servers.ended():
            raise Failed(f"{ended} has ended by itself; its log is in {servers.data_dir}")
        with suppress(subprocess.TimeoutExpired):
            server.wait(POLL_INTERVAL)
    raise Failed(f"the server has ended by itself, with exit code {server.returncode}")
