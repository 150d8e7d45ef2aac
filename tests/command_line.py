"""The real `corndog` executable, as users and scripts run it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from corndog.settings import PREFIX

CORNDOG = Path(sys.executable).with_name("corndog")
LIMIT = 60  # seconds for anything to happen


def environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give our environment with these settings and no others."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return {**own, **(settings or {})}


def corndog(
    *arguments: str | Path, settings: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with pipes instead of a terminal."""
    done = subprocess.run(
        [CORNDOG, *arguments], env=environment(settings), input=stdin, capture_output=True, timeout=LIMIT, check=False
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@dataclass
class Running:
    """A command that runs on, as the leader of a process group of its own, like in a terminal."""

    process: subprocess.Popen[bytes]

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout
        return self.process.stdout

    def interrupt(self) -> int:
        """Press Ctrl-C: the whole process group gets the signal. Gives the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(LIMIT)

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(LIMIT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)

    def family(self) -> list[psutil.Process]:
        """List it and all that it has started."""
        leader = psutil.Process(self.process.pid)
        return [leader, *leader.children(recursive=True)]

    def read_json(self) -> dict[str, str]:
        """Read a JSON document that it prints."""
        text = b""
        while line := self.output.readline():
            text += line
            if line == b"}\n":
                document: dict[str, str] = json.loads(text)
                return document
        raise AssertionError(f"it ended after {text!r}")


@contextmanager
def running(*arguments: str | Path, settings: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Start a command; at the end of the block it is asked to end, if it still runs."""
    with subprocess.Popen(
        [CORNDOG, *arguments], env=environment(settings), stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            yield Running(process)
        finally:
            if process.poll() is None:
                process.terminate()


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Give those that still do something; the dead may be in the table until their parent looks after them."""
    found = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def programs_in(data_dir: Path) -> list[psutil.Process]:
    """Find the servers that work in a data directory."""
    return [
        program
        for program in psutil.process_iter(["cwd"])
        if program.info["cwd"] and Path(program.info["cwd"]).is_relative_to(data_dir)
    ]
