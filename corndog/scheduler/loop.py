"""What a loop is."""

from collections.abc import Awaitable, Callable

import msgspec


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """Work that is due every `interval` seconds; it tells how much it did. Of all replicas the leader alone does it."""

    name: str
    interval: float
    run: Callable[[], Awaitable[int]]
    by_leader: bool = True
