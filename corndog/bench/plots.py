"""Plots of a run, as SVG and PNG; drawn by matplotlib, which is the package's `plot` extra."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from corndog.bench.errors import BenchError
from corndog.bench.figures import Findings

# ruff: noqa: PLC0415 - an extra that nobody needs without --plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 8
ROW = 0.36
FRAME = 1.4
DOTS = 150
LATENCY_ROWS = 9
FORMATS = ("svg", "png")
QUEUES = ("shallow", "depth", "fresh", "bloat", "count", "claims")
"""What the names of figures begin with that show how a long queue, or its remains, matter."""
TICKS = (0.0, 0.5, 0.9, 0.99, 0.999)


def require() -> None:
    """See that plots can be drawn.

    Raises:
        BenchError: matplotlib is missing.

    """
    if find_spec("matplotlib") is None:
        raise BenchError(
            "matplotlib is missing; install corndog with its `plot` extra: `pip install '.[plot]'` in a checkout"
        )


def draw(findings: Findings, title: str, directory: Path) -> list[Path]:
    """Draw what there is to be drawn; gives the files.

    Raises:
        BenchError: they can't be written.

    """
    import matplotlib as mpl

    mpl.use("agg")
    rates = [figure for figure in findings.figures if figure.unit.endswith("/s") and figure.ratio]
    queues = [figure for figure in findings.figures if figure.name.split("-")[0] in QUEUES]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        drawn: list[Path] = []
        if rates:
            with _plot(directory / "throughput", title, len(rates), drawn) as axes:
                axes.set_xscale("log")
                names = [f"{figure.name}\n({figure.of})" for figure in rates]
                _bars(axes, names, [figure.ratio or 1 for figure in rates], base=1)
                axes.axvline(1, color="gray", linewidth=0.8)
                axes.set_xlabel("throughput, as a ratio to what is in brackets")
        if findings.curves:
            with _plot(directory / "latency", title, LATENCY_ROWS, drawn) as axes:
                _latencies(axes, findings.curves)
        for unit in dict.fromkeys(figure.unit for figure in queues):
            same = [figure for figure in queues if figure.unit == unit]
            name = "-".join(("depth", *re.findall(r"\w+", unit)))
            with _plot(directory / name, title, len(same), drawn) as axes:
                _bars(axes, [figure.name for figure in same], [figure.value for figure in same])
                axes.set_xlabel(unit)
    except OSError as error:
        raise BenchError(f"can't write plots to {directory}: {error.strerror}") from None
    return drawn


@contextmanager
def _plot(path: Path, title: str, rows: int, drawn: list[Path]) -> "Iterator[Axes]":
    """Draw in the block; then it is written in all formats."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(WIDTH, FRAME + rows * ROW), layout="constrained")
    axes = sheet.add_subplot()
    yield axes
    axes.set_title(title, fontsize="small", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    for suffix in FORMATS:
        drawn.append(path.with_name(f"{path.name}.{suffix}"))
        sheet.savefig(drawn[-1], dpi=DOTS)


def _bars(axes: "Axes", names: Sequence[str], values: Sequence[float], base: float = 0) -> None:
    bars = axes.barh(names, [value - base for value in values], left=base)
    axes.bar_label(bars, labels=[f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in values], padding=3)  # noqa: PLR2004
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.tick_params(labelsize="small")


def _latencies(axes: "Axes", curves: Mapping[str, Sequence[float]]) -> None:
    """Draw each fraction of all calls against the time within which they were answered; the tail gets its room."""
    for name, seconds in curves.items():
        count = len(seconds)
        rest = [count / (count - place) for place in range(count)]
        axes.plot(rest, [second * 1000 for second in seconds], label=name, drawstyle="steps-post")
    axes.set_xscale("log")
    axes.set_xticks([1 / (1 - fraction) for fraction in TICKS], [f"{fraction:.4g}" for fraction in TICKS])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("fraction of all calls")
    axes.set_ylabel("answered within so many ms of when it was due")
    axes.legend()
