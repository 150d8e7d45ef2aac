"""The loop that sweeps timed-out tasks, where nobody else is to ask for it."""

from corndog.scheduler.loop import Loop
from corndog.service.clocks import Clocks


def sweep(clocks: Clocks, interval: float) -> Loop:
    """End the clocks that ran out, every `interval` seconds."""
    return Loop(name="sweep", interval=interval, run=clocks.clean_up)
