"""Programs that run beside us, each known by the directory it works in."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import psutil

from corndog.embedded.errors import EmbeddedError

# How to ask for an end, and how long to wait for it: PostgreSQL's fast shutdown, its immediate one, and force.
WAYS_TO_END = ((signal.SIGINT, 60), (signal.SIGQUIT, 10), (signal.SIGKILL, 10))
POLL_INTERVAL = 0.02


class Credentials(TypedDict, total=False):
    """Whom to run a program as, in the words of `subprocess`; empty: as ourselves."""

    user: int
    group: int
    extra_groups: Sequence[int]


@dataclass(frozen=True)
class Server:
    """A program that is run at most once per directory."""

    name: str
    program: Path
    directory: Path
    credentials: Credentials

    @property
    def log(self) -> Path:
        """Where the output of the latest run is."""
        return self.directory.with_suffix(".log")

    @contextmanager
    def running(self, arguments: Sequence[str], is_ready: Callable[[], bool]) -> Iterator[subprocess.Popen[bytes]]:
        """Run the program until the end of the block.

        There is no limit to the wait until it is ready: PostgreSQL may have hours of recovery to do.
        """
        process = None
        try:
            process = self._launch(arguments)
            while not is_ready():
                self._require_life(process)
                time.sleep(POLL_INTERVAL)
            yield process
        finally:
            self.stop()
            if process is not None:
                process.wait()

    def stop(self) -> None:
        """End every process of this server, whoever started it, and wait until all are gone."""
        for way, patience in WAYS_TO_END:
            processes = self._processes()
            pids = {process.pid for process in processes}
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    if process.ppid() not in pids:  # the others are its children, which it ends itself
                        process.send_signal(way)
            deadline = time.monotonic() + patience
            while self._processes() and time.monotonic() < deadline:
                time.sleep(POLL_INTERVAL)

    def _processes(self) -> list[psutil.Process]:
        """Find what runs; what has ended has no directory any more, even if its parent has not taken note of it."""
        return [
            process
            for process in psutil.process_iter(["name", "cwd"])
            if process.info["name"] == self.program.name and process.info["cwd"] == str(self.directory)
        ]

    def _launch(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        try:
            if self.log.exists():
                self.log.replace(self.log.with_suffix(".log.1"))
            with self.log.open("wb") as output:
                return subprocess.Popen(  # noqa: S603 - a program of our own, without a shell
                    [self.program, *arguments],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C goes to the terminal's process group; a server must outlive those who use it.
                    start_new_session=True,
                    **self.credentials,
                )
        except OSError as error:
            raise EmbeddedError(f"{self.name} can't run in {self.directory}: {error}") from None

    def _require_life(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            last_words = "\n".join(self.log.read_text(errors="replace").splitlines()[-5:])
            raise EmbeddedError(f"{self.name} ended while starting; {self.log} ends with\n{last_words}")
