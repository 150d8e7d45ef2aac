"""Run the measures and print them. Figures are of this machine at this moment; what counts are the ratios."""

import argparse

import msgspec
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import batches, bloat, calls, counts, delays, depth, heartbeats, idle, jobs, wakeups
from benchmarks.harness import CONNECTIONS, Measure, Site, site

MEASURES = {
    "calls": calls.measure,
    "batches": batches.measure,
    "wake-up": wakeups.measure,
    "idle": idle.measure,
    "bloat": bloat.measure,
    "depth": depth.measure,
    "heartbeats": heartbeats.measure,
    "jobs": jobs.measure,
    "delays": delays.measure,
    "counts": counts.measure,
}


async def take(name: str, place: Site) -> list[Measure]:
    """Take all figures of one measure."""
    return [measure async for measure in MEASURES[name](place)]


def main() -> None:
    """Run what is wanted."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", choices=MEASURES, action="append", help="run this measure (may be repeated)")
    parser.add_argument("--scale", type=float, default=1.0, help="make all terms smaller, for a quick look")
    parser.add_argument("--json", action="store_true", help="print one object for each figure")
    wanted = parser.parse_args()
    results: list[Measure] = []
    with site(wanted.scale) as place, Progress(console=Console(stderr=True)) as progress:
        names = wanted.only or list(MEASURES)
        bar = progress.add_task("measuring", total=len(names))
        for name in names:
            progress.update(bar, description=name)
            results += uvloop.run(take(name, place))
            progress.advance(bar)
    if wanted.json:
        for result in results:
            print(msgspec.json.encode(result).decode())
        return
    table = Table("measure", "value", "unit", "ratio", title=f"{CONNECTIONS} connections, one process for each server")
    for result in results:
        ratio = "" if result.ratio is None else f"{result.ratio:.2f} of {result.of}"
        table.add_row(result.name, f"{result.value:,.2f}", result.unit, ratio)
    Console().print(table)


if __name__ == "__main__":
    main()
