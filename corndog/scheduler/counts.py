"""The loop that folds what writes have added to the counts."""

from corndog.scheduler.loop import Loop
from corndog.service.counts import Counts

INTERVAL = 1.0
"""Seconds between two looks at how much there is to fold."""


def fold_counts(counts: Counts) -> Loop:
    """Keep what reads have to sum up small."""
    return Loop(name="counts", interval=INTERVAL, run=counts.fold)
