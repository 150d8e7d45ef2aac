"""Compare the full life of a task with other systems. Figures are of this machine at this moment; ratios count."""

import argparse
import signal
import sys
from collections.abc import Sequence

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.peers.catalogue import CORNDOG, ENTRIES, SINGLE, Entry
from benchmarks.peers.installation import prepare
from benchmarks.peers.place import place
from benchmarks.peers.runs import Figures, LeftOutError, run

TASKS = 5000
ROUNDS = 2


class Figure(msgspec.Struct, kw_only=True):
    """One figure, as `--json` prints it."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    of: str = ""


def measure(entries: Sequence[Entry], tasks: int, rounds: int) -> tuple[dict[str, Figures], dict[str, str]]:
    """Run all entries in turn, round after round: the best of each, and why others are left out."""
    best: dict[str, Figures] = {}
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("installing the peers", total=rounds * len(entries))
        programs, reasons = prepare(need for entry in entries for need in entry.needs)
        left_out = {entry.name: reasons[need] for entry in entries for need in entry.needs if need in reasons}
        with place() as servers:
            for _ in range(rounds):
                for entry in entries:
                    progress.update(bar, description=entry.name)
                    if entry.name not in left_out:
                        try:
                            figures = run(entry, servers, programs, max(1, tasks // entry.slow))
                        except LeftOutError as reason:
                            left_out[entry.name] = str(reason)
                            best.pop(entry.name, None)
                        else:
                            best[entry.name] = max(figures, best.get(entry.name, figures), key=lambda one: one.lives)
                    progress.advance(bar)
    return best, left_out


def ratio(entry: Entry, best: dict[str, Figures]) -> tuple[float | None, str]:
    """Compare with corndog's way to do the same, or with its single calls."""
    of = entry.against if entry.against in best else SINGLE
    return (best[entry.name].lives / best[of].lives, of) if of in best else (None, "")


def print_json(entries: Sequence[Entry], best: dict[str, Figures]) -> None:
    """Print one object for each figure."""
    for entry in entries:
        figures = best[entry.name]
        against, of = ratio(entry, best)
        parts = [
            Figure(name=entry.name, value=figures.lives, unit="lives/s", ratio=against, of=of),
            Figure(name=f"{entry.name}-produce", value=figures.tasks / figures.produce, unit="tasks/s"),
            Figure(name=f"{entry.name}-drain", value=figures.tasks / figures.drain, unit="tasks/s"),
        ]
        for part in parts:
            print(msgspec.json.encode(part).decode())


def print_table(entries: Sequence[Entry], best: dict[str, Figures], tasks: int) -> None:
    """Print what people read: the figures, and what they are figures of."""
    console = Console(soft_wrap=True)
    table = Table(title=f"{tasks} tasks, from submit to done", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in ("system", "lives/s", "ratio", "of", "produce/s", "drain/s"):
        table.add_column(column, no_wrap=True, justify="left" if column in {"system", "of"} else "right")
    for entry in entries:
        figures = best[entry.name]
        against, of = ratio(entry, best)
        table.add_row(
            entry.name,
            f"{figures.lives:,.0f}",
            "" if against is None else f"{against:.2f}",
            of,
            f"{figures.tasks / figures.produce:,.0f}",
            f"{figures.tasks / figures.drain:,.0f}",
        )
    console.print(table)
    for entry in entries:
        console.print(f"{entry.name} ({best[entry.name].version}): {entry.how}.", highlight=False)
        console.print(f"    durable: {entry.durable}; keeps of a done task: {entry.keeps}", highlight=False)


def main() -> None:
    """Run what is wanted."""
    peers = sorted({entry.peer for entry in ENTRIES})
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.add_argument("--only", choices=peers, action="append", help="this peer beside corndog (may be repeated)")
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"how many tasks ({TASKS})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of how many runs the best counts ({ROUNDS})")
    parser.add_argument("--json", action="store_true", help="print one object for each figure")
    wanted = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no server stays behind
    entries = [entry for entry in ENTRIES if entry in CORNDOG or entry.peer in (wanted.only or peers)]
    best, left_out = measure(entries, wanted.tasks, wanted.rounds)
    shown = [entry for entry in entries if entry.name in best]
    if wanted.json:
        print_json(shown, best)
    else:
        print_table(shown, best, wanted.tasks)
    for name, reason in left_out.items():
        Console(stderr=True, soft_wrap=True).print(f"left out: {name}: {reason}")


if __name__ == "__main__":
    main()
