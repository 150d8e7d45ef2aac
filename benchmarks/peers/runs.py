"""Run an adapter, read what it reports, and believe it only if its peer has done every task exactly once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import msgspec

from benchmarks.peers.catalogue import Entry
from benchmarks.peers.place import Place

ADAPTERS = Path(__file__).parent / "adapters"
TIME_LIMIT = 180
"""Seconds for one run."""


class LeftOutError(Exception):
    """There is no figure; the message says why."""


class Report(msgspec.Struct):
    """A line of an adapter's output."""

    part: str = ""
    seconds: float = 0.0
    ran: int = -1
    stored: int = -1
    version: str = ""
    lacks: str = ""
    """What the peer can't do, if that is so."""


class Figures(msgspec.Struct, kw_only=True):
    """What a run has shown."""

    tasks: int
    produce: float
    drain: float
    version: str

    @property
    def lives(self) -> float:
        """How many tasks a second went through their whole lives."""
        return self.tasks / (self.produce + self.drain)


def run(entry: Entry, place: Place, programs: Mapping[str, Path], tasks: int) -> Figures:
    """Run one entry on a fresh database and an empty Valkey.

    Raises:
        LeftOutError: the peer can't do it, has failed, or has not done each task once.

    """
    with place.fresh(synced=entry.synced) as database:
        environment = dict(place.environment(database))
        environment |= {name.upper(): str(program) for name, program in programs.items()}
        with place.corndog(database) if entry.peer == "corndog" else nullcontext(0) as port:
            environment |= {"CORNDOG_PORT": str(port), "BENCH_VARIANT": entry.variant, "BENCH_TASKS": str(tasks)}
            with _process(_program(entry, programs), environment) as process:
                return _read(process, tasks)


def _read(process: subprocess.Popen[bytes], tasks: int) -> Figures:
    output, errors = process.communicate(timeout=TIME_LIMIT)
    reports = [msgspec.json.decode(line, type=Report) for line in output.splitlines()]
    lacks = [report.lacks for report in reports if report.lacks]
    if lacks:
        raise LeftOutError(lacks[0])
    if process.returncode:
        last_words = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise LeftOutError(f"it failed: {' '.join(last_words)}")
    seconds = {report.part: report.seconds for report in reports if report.part}
    proof = reports[-1]
    if (proof.ran, proof.stored) != (tasks, tasks):
        raise LeftOutError(f"of {tasks} tasks {proof.ran} have run, and {proof.stored} are done in its storage")
    return Figures(tasks=tasks, produce=seconds["produce"], drain=seconds["drain"], version=proof.version)


def _program(entry: Entry, programs: Mapping[str, Path]) -> list[str]:
    if entry.peer == "corndog":
        return [sys.executable, "-m", "benchmarks.peers.own"]
    if "node" in entry.needs:
        return [str(programs["node"]), str(ADAPTERS / f"{entry.adapter}.mjs")]
    return [str(programs["python"]), str(ADAPTERS / f"{entry.adapter}.py")]


@contextmanager
def _process(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run an adapter in a process group of its own, and end all of it, whatever happens."""
    process = subprocess.Popen(  # noqa: S603
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        yield process
    except subprocess.TimeoutExpired:
        raise LeftOutError(f"it had not finished after {TIME_LIMIT} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
