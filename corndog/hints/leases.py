"""Leases: which deliveries are known to hold their tasks for a while yet; so a heartbeat need not ask the database.

A key says which delivery holds a task, and until when by the database's commit. It lives to the middle of that time at
most; whoever ends the hold or changes its clock deletes it. The database's `due_time` is the only deadline: a key that
is wrong can answer a heartbeat for as long as it lives, but lets no write through.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from corndog.hints.link import Link

LIFE_MAX = timedelta(seconds=30)
"""How long a heartbeat is answered without the database at most."""

_LIFE_MIN = timedelta(milliseconds=10)


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """A delivery that holds a task, and its committed deadline; None: it has none."""

    delivery: int
    expires: datetime | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Lease).decode


class Leases:
    """The leases in one Redis.

    Raises (every method):
        Away: Redis is not used now.

    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def get(self, ids: Sequence[UUID]) -> list[Lease | None]:
        """Look up what is known of tasks."""
        if not ids:
            return []
        keys = self._keys(ids)
        values = await self._link.call(lambda: self._link.client.mget(keys))
        return [_decode(value) if isinstance(value, bytes) else None for value in values]

    async def keep(self, leases: Mapping[UUID, Lease], lives: Mapping[UUID, timedelta]) -> None:
        """Write leases down, each for a time of its own, and at most `LIFE_MAX`; not worth it: not at all."""

        async def write() -> None:
            pipeline = self._link.client.pipeline(transaction=False)
            for task_id, lease in leases.items():
                life = min(lives[task_id], LIFE_MAX)
                if life >= _LIFE_MIN:
                    pipeline.set(self._key(task_id), _encode(lease), px=life)
            await pipeline.execute()

        await self._link.call(write, spoils=self._keys(leases))

    async def drop(self, ids: Iterable[UUID]) -> None:
        """Forget what is known of tasks."""
        if keys := self._keys(ids):
            await self._link.call(lambda: self._link.client.unlink(*keys), spoils=keys)

    def _keys(self, ids: Iterable[UUID]) -> list[str]:
        return [self._key(task_id) for task_id in ids]

    def _key(self, task_id: UUID) -> str:
        return self._link.key("lease", task_id.hex)
