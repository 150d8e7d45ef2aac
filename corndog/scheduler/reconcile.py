"""The loop that fills the windows in Redis from the database, in case a hint was lost."""

from corndog.scheduler.loop import Loop
from corndog.service.refills import Refills


def reconcile(refills: Refills, interval: float) -> Loop:
    """Reconcile every `interval` seconds; the servers agree among themselves on who does."""
    return Loop(name="reconcile", interval=interval, run=lambda: refills.reconcile(interval), by_leader=False)
