"""What a loop is."""

from collections.abc import Awaitable, Callable

import msgspec


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """Work that is due every `interval` seconds; it tells how many tasks it moved."""

    name: str
    interval: float
    run: Callable[[], Awaitable[int]]
