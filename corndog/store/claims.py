"""One function for each statement that finds ready tasks, hands them out, or keeps them held.

A claim that is run again after a lost connection finds what it has claimed by the token that it stamped on the rows.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from corndog.domain.listing import Entry
from corndog.domain.task import Candidate, Claim, Hold, Order, Window
from corndog.store import rows
from corndog.store.engine import Connection
from corndog.store.statements import load

_START: Order = (-(2**31) - 1, datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))
"""A place before all others."""

SPARE_HEADS = 64
"""How many more heads than asked for a claim over several queues reads, for those that others take meanwhile."""


class Extension(msgspec.Struct, frozen=True):
    """A hold whose deadline was moved, to when, and the length of its clock; None: it has none."""

    hold: Hold
    expires: datetime | None
    timeout: timedelta | None


async def claim_scan(
    connection: Connection, claim: Claim, count: int, default_timeout: timedelta, token: UUID
) -> list[Entry]:
    """Claim the first tasks by walking the index and skipping rows that others have locked (PostgreSQL)."""
    rest = (claim.current_state, count, *_overrides(claim, default_timeout, token))
    if len(claim.queues) == 1:
        written = await connection.fetch(load("claim_scan"), claim.queues[0], *rest)
    else:
        written = await connection.fetch(load("claim_merge"), list(claim.queues), *rest, count + SPARE_HEADS)
    return [rows.entry(row) for row in written]


async def ready_heads(
    connection: Connection,
    windows: Mapping[Window, Order | None],
    each: int,
    overall: int,
    *,
    limit_seconds: float | None = None,
) -> list[Candidate]:
    """Read the first ready tasks of each window, and of those the first overall, without locks; in claim order.

    `windows` says after which place each is read; None: from the start.
    """
    after = [_START if place is None else place for place in windows.values()]
    heads = await connection.fetch(
        load("ready_heads"),
        [window.queue for window in windows],
        [window.state for window in windows],
        *map(list, zip(*after, strict=True)),
        each,
        overall,
        timeout=limit_seconds,
    )
    return [rows.candidate(row) for row in heads]


async def ready_windows(connection: Connection, after: Window | None, limit: int) -> list[Window]:
    """List the windows that have ready tasks, in order of queue and state."""
    start = Window("", "") if after is None else after
    return [Window(queue, state) for queue, state in await connection.fetch(load("ready_windows"), *start, limit)]


async def claim_by_key(
    connection: Connection, claim: Claim, candidates: Sequence[Candidate], default_timeout: timedelta, token: UUID
) -> list[Entry]:
    """Claim these tasks, as far as they are still what they were and nobody has locked them."""
    *keys, states = _columns(candidates)
    written = await connection.fetch(load("claim_by_key"), *keys, *_overrides(claim, default_timeout, token), states)
    return [rows.entry(row) for row in written]


async def still_ready(connection: Connection, candidates: Sequence[Candidate]) -> set[UUID]:
    """Tell which of these tasks a claim could have, were they not locked."""
    return {row[0] for row in await connection.fetch(load("still_ready"), *_columns(candidates))}


async def claimed_by(connection: Connection, worker_id: str, token: UUID) -> list[Entry]:
    """Find what a claim with this token holds already."""
    return [rows.entry(row) for row in await connection.fetch(load("claimed_by"), worker_id, token)]


async def heartbeat(connection: Connection, holds: Sequence[Hold]) -> list[Extension]:
    """Extend the leases of the deliveries that hold their tasks."""
    written = await connection.fetch(load("heartbeat"), [hold.id for hold in holds], [hold.delivery for hold in holds])
    return [Extension(Hold(task_id, delivery), expires, timeout) for task_id, delivery, expires, timeout in written]


def _columns(candidates: Sequence[Candidate]) -> tuple[list[object], ...]:
    return (
        [candidate.id for candidate in candidates],
        [candidate.window.queue for candidate in candidates],
        [candidate.rank for candidate in candidates],
        [candidate.window.state for candidate in candidates],
    )


def _overrides(claim: Claim, default_timeout: timedelta, token: UUID) -> tuple[object, ...]:
    return (
        claim.override_current_state,
        claim.override_auto_target_state,
        claim.override_timeout,
        default_timeout,
        claim.worker_id,
        token,
    )
