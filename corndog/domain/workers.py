"""The records of the fleet: who works, as far as heartbeats and claims tell, and what each holds.

A worker is a name. Whoever comes back under a name that died before is shown with what the dead one still holds.
"""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

ACTIVE_SINCE = timedelta(minutes=2)
"""Who was seen within this time is active, unless the caller says another."""

HOLDS_MAX = 100
"""Of how many of its deliveries a worker is shown with the particulars; the oldest come first."""


class WorkerFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which workers a listing shows: those seen within a time; None shows all."""

    active_since: timedelta | None = None


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that holds its task; an overdue one is held until a sweep ends it."""

    id: UUID
    queue: str
    current_state: str
    kind: str | None
    delivery: int
    claim_time: datetime
    due_time: datetime | None
    is_overdue: bool


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that sends heartbeats, or holds something.

    `last_seen` is its last heartbeat, as the registry has it, or the latest claim among what it holds. `metadata` is
    the text of a JSON object. `held` counts what it holds, `holds` has the first of them.
    """

    id: str
    first_seen: datetime
    last_seen: datetime
    is_active: bool
    drains: bool
    metadata: str | None
    held: int
    holds: tuple[Holding, ...]
