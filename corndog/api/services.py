"""What the handlers work with: the use cases, and the limits that this server holds."""

from collections.abc import Awaitable, Callable

import msgspec

from corndog.domain.limits import Sizes
from corndog.service.claims import Claims
from corndog.service.clocks import Clocks
from corndog.service.heartbeats import Heartbeats
from corndog.service.reading import Reading
from corndog.service.tasks import Tasks

Check = Callable[[], Awaitable[None]]
"""Looks at one part that the server can do without; raises if it is away, and says why."""


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """One application's use cases."""

    tasks: Tasks
    claims: Claims
    heartbeats: Heartbeats
    clocks: Clocks
    reading: Reading
    sizes: Sizes
    dispensable: dict[str, Check]
