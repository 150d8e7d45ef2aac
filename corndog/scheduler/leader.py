"""Leadership: of all replicas, one at a time runs the loops.

It is an economy, not a guarantee: everything that a loop does is safe in two places at once.
"""

from datetime import timedelta
from time import monotonic
from uuid import uuid4

from corndog.store import leadership
from corndog.store.engine import Database

TERM = timedelta(seconds=6)
RENEWAL = TERM / 3
LEASE = "scheduler"


class Leader:
    """Holds the lease, or waits for it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._holder = str(uuid4())
        self._until = 0.0

    @property
    def leads(self) -> bool:
        """Whether this replica has the lease; by its own clock, and never longer than the database thinks."""
        return monotonic() < self._until

    async def campaign(self) -> None:
        """Take the lease, or keep it."""
        began = monotonic()
        has_won = await self._database.run(lambda connection: leadership.lead(connection, LEASE, self._holder, TERM))
        self._until = began + TERM.total_seconds() if has_won else 0.0

    async def resign(self) -> None:
        """Give the lease up at the end, so that another replica goes on at once."""
        if self.leads:
            self._until = 0.0
            await self._database.once(lambda connection: leadership.resign(connection, LEASE, self._holder))
