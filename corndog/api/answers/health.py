"""Answers about the server itself."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Health(msgspec.Struct):
    """Whether the server takes work, and what it has to say about its parts."""

    status: Annotated[str, Meta(description="`ok`, `degraded` (works, but slower), or `unavailable`.")]
    checks: dict[str, str]
    warnings: list[str]


class Alive(msgspec.Struct):
    """The process answers."""

    status: str = "ok"
