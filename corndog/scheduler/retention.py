"""The loop that deletes what was kept long enough."""

from corndog.scheduler.loop import Loop
from corndog.service.retention import Retention


def retention(purges: Retention, interval: float) -> Loop:
    """Purge what is due, every `interval` seconds."""
    return Loop(name="retention", interval=interval, run=purges.purge)
