"""All measures, in the order in which they are taken."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from corndog.bench.figures import Figures
from corndog.bench.measures import (
    batches,
    bloat,
    counts,
    delays,
    depth,
    grouping,
    heartbeats,
    idle,
    jobs,
    latency,
    lives,
    memory,
    raw,
    singles,
    wakeups,
    writes,
)
from corndog.bench.places import Place


class Measure(NamedTuple):
    """A measure: its name, those of its figures, and the way to take them."""

    name: str
    figures: Sequence[str]
    take: Callable[[Place], Figures]


MEASURES = tuple(
    Measure(name, module.FIGURES, module.measure)
    for name, module in {
        "single": singles,
        "batch": batches,
        "raw": raw,
        "life": lives,
        "latency": latency,
        "one-at-a-time": grouping,
        "wake-up": wakeups,
        "idle": idle,
        "bloat": bloat,
        "depth": depth,
        "counts": counts,
        "heartbeats": heartbeats,
        "jobs": jobs,
        "delays": delays,
        "memory": memory,
        "write": writes,
    }.items()
)


def choose(names: Collection[str]) -> set[str]:
    """Find the figures that are meant by names of measures or of figures; none: all.

    Raises:
        ValueError: nothing is called so.

    """
    measures = {measure.name: measure.figures for measure in MEASURES}
    figures = {figure: [figure] for measure in MEASURES for figure in measure.figures}
    if not names:
        return set(figures)
    known = figures | measures  # `idle` is both, and means all of it
    for name in names:
        if name not in known:
            raise ValueError(
                f"nothing is called {name!r}; there are {', '.join(measures)}, and what each of them shows"
            )
    return {figure for name in names for figure in known[name]}
