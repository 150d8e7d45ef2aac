"""What the handlers work with: the use cases, and the limits that this server holds."""

from collections.abc import Awaitable, Callable

import msgspec

from corndog.domain.limits import Terms
from corndog.service.claims import Claims
from corndog.service.clocks import Clocks
from corndog.service.endings import Endings
from corndog.service.jobs import Jobs
from corndog.service.reading import Reading
from corndog.service.revivals import Revivals
from corndog.service.submits import Submits
from corndog.service.tasks import Tasks
from corndog.service.workers import Workers

Check = Callable[[], Awaitable[None]]
"""Looks at one part that the server can do without; raises if it is away, and says why."""


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """One application's use cases."""

    submits: Submits
    tasks: Tasks
    endings: Endings
    revivals: Revivals
    jobs: Jobs
    claims: Claims
    workers: Workers
    clocks: Clocks
    reading: Reading
    terms: Terms
    dispensable: dict[str, Check]
