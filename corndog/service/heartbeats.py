"""The use case of heartbeats: workers say what they hold, and hear what they hold still."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic

from corndog.domain.listing import Include
from corndog.domain.task import Beat, Hold, Standing
from corndog.domain.transitions import standing
from corndog.hints.leases import LIFE_MAX, Lease, Leases
from corndog.hints.link import Away
from corndog.observability import metrics
from corndog.service.groups import GROUP_SIZE, Group
from corndog.store import claims as store
from corndog.store.engine import Database
from corndog.store.reading import get


class Heartbeats:
    """Extends leases: in the database once half of one is over, and until then answers from Redis if it can."""

    def __init__(self, database: Database, leases: Leases | None, group_size: int = GROUP_SIZE) -> None:
        self._database = database
        self._leases = leases
        self._extend = Group("heartbeat", self._extend_all, size=group_size, key_of=lambda hold: hold.id)

    async def beat(self, holds: Sequence[Hold]) -> list[Beat]:
        """Answer a heartbeat for deliveries, in their order.

        A delivery that is held has at least half of its clock left by the database's committed deadline.
        """
        known = await self._known(holds)
        unknown = [hold for hold in dict.fromkeys(holds) if hold not in known]
        metrics.HEARTBEATS.labels("redis").inc(len(known))
        metrics.HEARTBEATS.labels("database").inc(len(unknown))
        if unknown:
            beats = await asyncio.gather(*map(self._extend, unknown))
            known |= {hold: beat for hold, beat in zip(unknown, beats, strict=True) if beat}
        if lost := [hold for hold in unknown if hold not in known]:
            known |= await self._why(lost)
        return [known[hold] for hold in holds]

    async def _known(self, holds: Sequence[Hold]) -> dict[Hold, Beat]:
        """Answer what Redis knows."""
        if not self._leases or not holds:
            return {}
        with suppress(Away):
            leases = await self._leases.get([hold.id for hold in holds])
            return {
                hold: _held(hold, lease)
                for hold, lease in zip(holds, leases, strict=True)
                if lease and lease.delivery == hold.delivery
            }
        return {}

    async def _extend_all(self, holds: Sequence[Hold]) -> list[Beat | None]:
        began = monotonic()
        extended = await self._database.run(lambda connection: store.heartbeat(connection, holds))
        leases = {done.hold: Lease(done.hold.delivery, done.expires) for done in extended}
        if self._leases and leases:
            # The middle of the clock, which has run since the statement began.
            spent = timedelta(seconds=monotonic() - began)
            lives = {done.hold.id: (done.timeout / 2 if done.timeout else LIFE_MAX) - spent for done in extended}
            with suppress(Away):
                await self._leases.keep({hold.id: lease for hold, lease in leases.items()}, lives)
        return [_held(hold, leases[hold]) if hold in leases else None for hold in holds]

    async def _why(self, holds: Iterable[Hold]) -> dict[Hold, Beat]:
        """Tell whether a task that is held no more was canceled, or is lost otherwise."""
        holds = list(holds)
        found = await self._database.run(lambda connection: get(connection, [hold.id for hold in holds], Include()))
        tasks = {task_id: entry.task for task_id, entry in found.items()}
        return {
            hold: Beat(id=hold.id, delivery=hold.delivery, standing=standing(tasks.get(hold.id), hold.delivery))
            for hold in holds
        }


def _held(hold: Hold, lease: Lease) -> Beat:
    return Beat(id=hold.id, delivery=hold.delivery, standing=Standing.HELD, lease_expires=lease.expires)
