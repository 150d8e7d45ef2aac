"""Idempotency: what is asked for under a key happens once, however often it is asked for."""

from datetime import timedelta
from typing import NamedTuple

from corndog.domain.errors import Code, Conflict
from corndog.domain.keys import Kept, Key, Made
from corndog.store import keys as store
from corndog.store.engine import Connection


class Earlier(NamedTuple):
    """What was made under a key before; not `replayed` if this very request did, in a run whose answer was lost."""

    made: Made
    replayed: bool


class Keys:
    """Remembers what was made under keys, for as long as that lives and `ttl` longer."""

    def __init__(self, ttl: timedelta) -> None:
        self.ttl = ttl

    async def once(self, connection: Connection, key: Key, made: Made) -> Earlier | None:
        """Take a key for what is about to be made, or tell what was made under it before.

        To be called first of all in the transaction that makes it: None means to go on. `made` has at least one id.
        Another transaction that has just taken the key is waited for.

        Raises:
            Conflict: the key was taken by another request.

        """
        while not await store.keep(connection, key, made, self.ttl):
            # Where it is not found, its time has come just now, and it is free.
            if (earlier := await self._find(connection, key, made)) is not None:
                return earlier
        return None

    async def look(self, connection: Connection, key: Key) -> Earlier | None:
        """Tell what was made under a key before, for a request that makes nothing.

        Raises:
            Conflict: the key was taken by another request.

        """
        return await self._find(connection, key, Made())

    async def _find(self, connection: Connection, key: Key, made: Made) -> Earlier | None:
        kept = await store.find(connection, [key.text])
        return earlier_of(kept[key.text], key, made) if kept else None


def earlier_of(kept: Kept, key: Key, made: Made) -> Earlier:
    """Tell what was made under a key before, or now by the request that makes this.

    Raises:
        Conflict: the key was taken by another request.

    """
    is_own = (kept.made.task_ids, kept.made.job_id) == (made.task_ids, made.job_id)
    if not is_own and kept.request != key.request:
        raise Conflict(Code.KEY_IN_USE, "this idempotency key was used for another request")
    return Earlier(kept.made, replayed=not is_own)
