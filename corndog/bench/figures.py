"""What a run finds out."""

from collections.abc import AsyncGenerator, Sequence
from typing import TypeAlias

import msgspec


class Figure(msgspec.Struct, kw_only=True):
    """One figure, what it is in relation to `of`, and how much of a core the load generator used meanwhile."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    of: str = ""
    generator: float | None = None


Figures: TypeAlias = AsyncGenerator[Figure, None]
"""What a measure yields."""


class Findings(msgspec.Struct):
    """All figures of a run, why some are missing, and by name the latencies behind percentiles, in seconds."""

    figures: list[Figure] = []
    left_out: dict[str, str] = {}
    curves: dict[str, Sequence[float]] = {}

    def value(self, name: str) -> float | None:
        """Look a figure up."""
        return next((figure.value for figure in self.figures if figure.name == name), None)


def at(fraction: float, ordered: Sequence[float]) -> float:
    """Give the value that this fraction of all does not exceed."""
    return ordered[min(int(len(ordered) * fraction), len(ordered) - 1)]
