"""`corndog bench`: measure, and show what was found."""

import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import asyncpg
import msgspec
import typer
import uvloop
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from corndog.bench import catalog, machine, plots
from corndog.bench.errors import BenchError
from corndog.bench.figures import Figure, Findings
from corndog.bench.http import Address
from corndog.bench.places import Place, Somewhere, Wishes, own_place
from corndog.bench.run import count, run
from corndog.cli.dev import ENDING_SIGNALS, Interrupt
from corndog.cli.output import Failed, say, show, to_people, warn
from corndog.settings import Settings, SettingsError

DATABASE_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
INTERRUPTED = 130  # the exit code of a command that Ctrl-C ends


class Wanted(NamedTuple):
    """The command's options."""

    url: str | None
    only: Sequence[str]
    scale: float
    connections: int
    per_second: float
    plot: Path | None
    as_json: bool


def bench(wanted: Wanted) -> None:
    """Measure, and print the figures; those that were found before a fault or a signal, too.

    Raises:
        Failed: it can't be measured.

    """
    try:
        names = catalog.choose(wanted.only)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from None
    wishes = Wishes(names, scale=wanted.scale, connections=wanted.connections, per_second=wanted.per_second)
    interrupt = _Interrupt()
    for way in ENDING_SIGNALS:
        signal.signal(way, interrupt.come)
    try:
        if wanted.plot:
            plots.require()
        with _place(wanted.url, wishes) as place:
            try:
                interrupt.check()
                uvloop.run(_measure(place, wanted, interrupt))
            finally:
                _ignore_signals()
    except (KeyboardInterrupt, asyncio.CancelledError):
        warn("stopped, and all that was started for it")
        raise typer.Exit(INTERRUPTED) from None
    except BenchError as error:
        raise Failed(str(error)) from None
    except DATABASE_ERRORS as error:
        raise Failed(f"the database has failed: {str(error) or type(error).__name__}") from None


class _Interrupt(Interrupt):
    """A signal to end. A run is cancelled by it, and ends what it has started; before one, KeyboardInterrupt does."""

    run: "asyncio.Task[None] | None" = None

    def come(self, signal_number: int, frame: FrameType | None) -> None:
        """End, as the handler of a signal."""
        if self.run is None or self.run.done():
            super().come(signal_number, frame)
        else:
            _ignore_signals()
            self.run.cancel()
            self.run.get_loop().call_soon_threadsafe(lambda: None)  # a loop that waits for nothing else wakes up


def _ignore_signals() -> None:
    for way in ENDING_SIGNALS:
        signal.signal(way, signal.SIG_IGN)


@contextmanager
def _place(url: str | None, wishes: Wishes) -> Iterator[Place]:
    if url is not None:
        try:
            address = Address.of(url)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--url") from None
        yield Somewhere(wishes, address)
        return
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        raise Failed(str(error)) from None
    status = to_people(on_stderr=True).status("starting PostgreSQL and Valkey")
    with status, own_place(wishes, settings) as place:
        status.stop()
        yield place


async def _measure(place: Place, wanted: Wanted, interrupt: _Interrupt) -> None:
    interrupt.run = asyncio.current_task()
    about = f"{machine.about()}, {await place.about()}"
    columns = (TextColumn("measuring {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=to_people(on_stderr=True), disable=not sys.stderr.isatty()) as progress:
            bar = progress.add_task("", total=count(place))
            started = 0

            def tell(name: str) -> None:
                nonlocal started
                progress.update(bar, description=name, completed=started)
                started += 1

            await run(place, tell)
            progress.update(bar, completed=started)
    finally:
        await place.close()
        _show(place.findings, about, as_json=wanted.as_json)
    if wanted.plot:
        for path in plots.draw(place.findings, about, wanted.plot):
            to_people(on_stderr=True).print(f"wrote {path}")


def _show(findings: Findings, about: str, *, as_json: bool) -> None:
    reasons = [
        f"left out: {', '.join(name for name, why in findings.left_out.items() if why == reason)}: {reason}"
        for reason in dict.fromkeys(findings.left_out.values())
    ]
    if as_json:
        for figure in findings.figures:
            sys.stdout.write(msgspec.json.encode(figure).decode() + "\n")
        for reason in reasons:
            warn(reason)
        return
    if findings.figures:
        say(about, style="bold")
        show(_table(findings.figures))
    for reason in reasons:
        say(reason)


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("FIGURE", "VALUE", "UNIT", "RATIO", "GENERATOR"):
        table.add_column(
            title, no_wrap=title == "FIGURE", justify="right" if title in {"VALUE", "GENERATOR"} else "left"
        )
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.value:,.2f}" if figure.value < 100 else f"{figure.value:,.0f}",  # noqa: PLR2004 - digits that count
            figure.unit,
            "" if figure.ratio is None else f"{figure.ratio:.2f} of {figure.of}",
            "" if figure.generator is None else f"{figure.generator:.0%} of a core",
        )
    return table
