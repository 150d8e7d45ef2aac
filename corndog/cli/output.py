"""How commands speak: tables and short lines for people, JSON for scripts, one line for what went wrong."""

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Console, RenderableType
from rich.table import Table

PIPED_WIDTH = 100_000  # into a pipe or a file, a row stays on its line

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


class Failed(Exception):
    """A command can't do what it was asked for; the message says why and what to do about it."""


def to_people(*, on_stderr: bool = False) -> Console:
    """Give the console for people; it takes text as it is, without any markup."""
    stream = sys.stderr if on_stderr else sys.stdout
    width = None if stream.isatty() else PIPED_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


def say(text: str, style: str | None = None) -> None:
    """Print a line."""
    to_people().print(text, style=style)


def complain(text: str) -> None:
    """Print what went wrong."""
    to_people(on_stderr=True).print(f"error: {text}", style="red")


def warn(text: str) -> None:
    """Print what may be wrong."""
    to_people(on_stderr=True).print(f"warning: {text}", style="yellow")


def show_json(document: object) -> None:
    """Print a document, or the JSON text of one, with every value exactly as it is."""
    text = document if isinstance(document, bytes) else msgspec.json.encode(document)
    sys.stdout.write(msgspec.json.format(text, indent=2).decode() + "\n")


def show_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their titles; nothing is cut, and the first column, which names a row, is never wrapped."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, title in enumerate(titles):
        table.add_column(title, overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    show(table)


def show(thing: RenderableType) -> None:
    """Print a table or a tree, without the blanks that would fill its lines."""
    console = to_people()
    with console.capture() as rendered:
        console.print(thing)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in rendered.get().splitlines())


def one_line(text: str, longest: int = 100) -> str:
    """Give the beginning of the first line of a text that others wrote; no part of it moves the cursor or the like."""
    lines = text.splitlines() or [""]
    line = "".join(part if part.isprintable() else ascii(part)[1:-1] for part in lines[0][: longest + 1])
    return line if len(line) <= longest and len(lines) == 1 else f"{line[: longest - 1]}…"
