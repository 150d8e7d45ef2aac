"""The loop that stores the status of jobs whose tasks were written by a process that is gone."""

from corndog.scheduler.loop import Loop
from corndog.service.statuses import Statuses

INTERVAL = 15.0
"""Seconds between two looks at all unfinished jobs."""


def heal_statuses(statuses: Statuses) -> Loop:
    """Compare unfinished jobs with their tasks."""
    return Loop(name="job statuses", interval=INTERVAL, run=statuses.heal)
