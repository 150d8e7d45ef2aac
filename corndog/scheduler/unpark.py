"""The loop that makes parked tasks ready when their time has come."""

from corndog.scheduler.loop import Loop
from corndog.service.clocks import Clocks


def unpark(clocks: Clocks, interval: float) -> Loop:
    """Unpark what is due, every `interval` seconds."""
    return Loop(name="unpark", interval=interval, run=clocks.unpark)
