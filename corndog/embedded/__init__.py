"""A real PostgreSQL and a real Valkey, run from wheels under one data directory (the package's `dev` extra).

    data_dir/lock          held while they run: one owner at a time
             postgres/     the cluster, kept between runs
             postgres.log  of this run; postgres.log.1 is the one before
             valkey/       Valkey's working directory; it keeps nothing there
             run/          the sockets, unless that path is too long for a socket
             programs/     as root: a copy of the programs, if their installation is closed to the system user

The wheels only supply the programs. Their own starters give a recovering PostgreSQL ten seconds, leave Valkey in the
terminal's process group, where Ctrl-C reaches it, and open every parent directory to all users.

Nothing is written down about a running server: a program that runs in these directories belongs to whoever holds the
lock. So what a killed run left behind is found and ended in the same way as what this run has started.
"""

import os
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from corndog.embedded.directory import default_data_dir, socket_directory, sole_owner
from corndog.embedded.errors import EmbeddedError

MISSING: str | None = None
try:
    with warnings.catch_warnings(action="ignore"):  # the wheel complains about a directory that isn't used here
        from corndog.embedded import postgres, unprivileged, valkey
except ModuleNotFoundError as error:
    MISSING = error.name

__all__ = ["EmbeddedError", "Servers", "default_data_dir", "start"]


@dataclass(frozen=True)
class Servers:
    """Both servers, running."""

    database_url: str
    redis_url: str
    data_dir: Path
    processes: Mapping[str, subprocess.Popen[bytes]]
    revive: Callable[[], bool]
    """Starts Valkey again if it has ended, and tells whether it had; PostgreSQL is not started again."""

    def ended(self) -> str | None:
        """Name a server that has ended by itself, if one has."""
        return next((name for name, process in self.processes.items() if process.poll() is not None), None)


@contextmanager
def start(data_dir: Path, postgres_settings: Mapping[str, str] | None = None) -> Iterator[Servers]:
    """Run both servers until the end of the block; if one doesn't start, nothing stays behind.

    Raises:
        EmbeddedError: they can't run here, or another process already runs them.

    """
    if MISSING:
        raise EmbeddedError(
            f"{MISSING} is missing; install corndog with its `dev` extra: `pip install '.[dev]'` in a checkout"
        )
    data_dir = data_dir.expanduser().resolve()
    as_root = os.geteuid() == 0
    if as_root:
        unprivileged.refuse_home_directory(data_dir)
    with ExitStack() as stack:
        stack.enter_context(sole_owner(data_dir))
        credentials = unprivileged.system_user(data_dir) if as_root else {}
        database = postgres.server(data_dir, credentials)
        accelerator = valkey.server(data_dir, credentials)
        for leftover in (accelerator, database):
            leftover.stop()
        sockets = stack.enter_context(socket_directory(data_dir))
        unprivileged.give(sockets, credentials)
        postgres.ensure_cluster(database)
        processes = {
            database.name: stack.enter_context(postgres.running(database, sockets, postgres_settings or {})),
            accelerator.name: stack.enter_context(valkey.running(accelerator, sockets)),
        }

        def revive() -> bool:
            if processes[accelerator.name].poll() is None:
                return False
            processes[accelerator.name] = stack.enter_context(valkey.running(accelerator, sockets))
            return True

        yield Servers(postgres.url(sockets), valkey.url(sockets), data_dir, processes, revive)
