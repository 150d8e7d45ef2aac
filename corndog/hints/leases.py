"""Leases: which deliveries are known to hold their tasks for a while yet; so a heartbeat need not ask the database.

A key says which delivery holds a task, and until when by the database's commit. It lives to the middle of that time at
most; whoever ends the hold or changes its clock drops it. The database's `due_time` is the only deadline: a key that
is wrong can answer a heartbeat for as long as it lives, but lets no write through.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from corndog.hints.link import Link

LIFE_MAX = timedelta(seconds=30)
"""How long a heartbeat is answered without the database at most."""

_DROP_LIFE = timedelta(seconds=5)
"""How long a lease that was dropped can't be kept: longer than a heartbeat takes from its commit to its key."""

_LIFE_MIN = timedelta(milliseconds=10)


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """A delivery that holds a task, and its committed deadline; None: it has none."""

    delivery: int
    expires: datetime | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Lease).decode


def _read(value: bytes | str | None) -> Lease | None:
    try:
        return _decode(value) if isinstance(value, bytes) else None
    except msgspec.DecodeError:
        return None


class Leases:
    """The leases in one Redis.

    Raises (every method):
        Away: Redis is not used now.

    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._drop = link.script("drop")

    async def get(self, ids: Sequence[UUID]) -> list[Lease | None]:
        """Look up what is known of tasks."""
        if not ids:
            return []
        keys = self._keys(ids)
        values = await self._link.call(lambda: self._link.client.mget(keys))
        return [_read(value) for value in values]

    async def keep(self, leases: Mapping[UUID, Lease], lives: Mapping[UUID, timedelta]) -> None:
        """Write leases down, each for a time of its own, and at most `LIFE_MAX`; not worth it: not at all.

        One that was dropped just now is not: whoever did may have been told of what came after.
        """

        async def write() -> None:
            pipeline = self._link.client.pipeline(transaction=False)
            for task_id, lease in leases.items():
                life = min(lives[task_id], LIFE_MAX)
                if life >= _LIFE_MIN:
                    pipeline.set(self._key(task_id), _encode(lease), px=life, nx=True)
            await pipeline.execute()

        await self._link.call(write, spoils=self._keys(leases))

    async def drop(self, ids: Iterable[UUID]) -> None:
        """Forget what is known of tasks, and for a while what those say who knew it before."""
        if not (keys := self._keys(ids)):
            return

        await self._link.call(lambda: self._drop(keys, [round(_DROP_LIFE.total_seconds() * 1000)]), spoils=keys)

    def _keys(self, ids: Iterable[UUID]) -> list[str]:
        return [self._key(task_id) for task_id in ids]

    def _key(self, task_id: UUID) -> str:
        return self._link.key("lease", task_id.hex)
