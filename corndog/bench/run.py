"""A run: the measures that are wanted, one after the other, at one place."""

from collections.abc import Callable
from contextlib import aclosing

from corndog.bench import load
from corndog.bench.catalog import MEASURES
from corndog.bench.errors import LeftOut
from corndog.bench.figures import Findings
from corndog.bench.places import Place


async def run(place: Place, tell: Callable[[str], None]) -> Findings:
    """Take the measures; `tell` hears which one is next.

    Raises:
        BenchError: one of them can't go on.

    """
    load.allow_connections()
    findings = place.findings
    for measure in MEASURES:
        wanted = [name for name in measure.figures if place.wants(name)]
        if not wanted:
            continue
        tell(measure.name)
        reason = ""
        try:
            async with aclosing(measure.take(place)) as figures:
                async for figure in figures:
                    if figure.name in wanted:
                        findings.figures.append(figure)
        except LeftOut as left_out:
            reason = str(left_out)
        for name in wanted:
            if findings.value(name) is None:
                findings.left_out[name] = reason
    return findings


def count(place: Place) -> int:
    """Tell how many measures a run takes."""
    return sum(place.wants(*measure.figures) for measure in MEASURES)
