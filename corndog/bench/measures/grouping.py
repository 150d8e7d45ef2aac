"""What a single client pays for group commit: the time of its calls, one after the other, with and without it."""

from collections.abc import Sequence
from statistics import median
from time import perf_counter

from corndog.bench.errors import LeftOut
from corndog.bench.figures import Figure, Figures
from corndog.bench.http import Line
from corndog.bench.load import lines
from corndog.bench.places import NO_SERVERS, Place
from corndog.bench.tasks import claim, complete, delivery, submits
from corndog.settings import Settings

FIGURES = ("ungrouped", "one-at-a-time")
LIVES = 300
ROUNDS = 3
SETTING = "group_size"
"""How many requests are written together at most; 1: each alone."""


async def measure(place: Place) -> Figures:
    """Take one task after the other through its life, on two servers in turn."""
    if SETTING not in Settings.__struct_fields__:
        raise LeftOut(f"this version groups always: it has no setting {SETTING}")
    if not place.is_ours:
        raise LeftOut(NO_SERVERS)
    async with (
        place.running(**{SETTING: 1}) as without,
        place.running() as grouping,
        lines(without.address, 1) as [alone],
        lines(grouping.address, 1) as [grouped],
    ):
        await _lives(place, alone, place.scaled(50))
        await _lives(place, grouped, place.scaled(50))
        times: dict[str, list[float]] = {"alone": [], "grouped": []}
        for _ in range(ROUNDS):
            times["alone"] += await _lives(place, alone, place.scaled(LIVES // ROUNDS))
            times["grouped"] += await _lives(place, grouped, place.scaled(LIVES // ROUNDS))
    alone_ms, grouped_ms = _milliseconds(times["alone"]), _milliseconds(times["grouped"])
    yield Figure(name="ungrouped", value=alone_ms, unit="ms a life")
    yield Figure(
        name="one-at-a-time", value=grouped_ms, unit="ms a life", ratio=grouped_ms / alone_ms, of="without grouping"
    )


async def _lives(place: Place, line: Line, count: int) -> list[float]:
    spent = []
    for submit in submits(place.queue, count):
        began = perf_counter()
        await line.send(submit)
        task = delivery(await line.send(claim(place.queue)))
        await line.send(complete(task))
        spent.append(perf_counter() - began)
    return spent


def _milliseconds(seconds: Sequence[float]) -> float:
    return median(seconds) * 1000
