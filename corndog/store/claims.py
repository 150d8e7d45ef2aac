"""One function for each statement that finds ready tasks, hands them out, or keeps them held.

A claim that is run again after a lost connection finds what it has claimed by the token that it stamped on the rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TypeAlias
from uuid import UUID

import msgspec

from corndog.domain.listing import Entry
from corndog.domain.task import Candidate, Claim, Hold, Order, Window
from corndog.store import rows
from corndog.store.engine import Connection
from corndog.store.statements import Column, load, sparse

Handed: TypeAlias = dict[UUID, list[Entry]]
"""What was handed out, in claim order, by the tokens of those who asked."""

_START: Order = (-(2**31) - 1, datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))
"""A place before all others."""

SPARE_HEADS = 64
"""How many more heads than asked for a claim over several queues reads, for those that others take meanwhile."""


class Ask(msgspec.Struct, frozen=True):
    """A claim of so many tasks, and the token by which its rerun knows what it has."""

    claim: Claim
    count: int
    token: UUID


class Extension(msgspec.Struct, frozen=True):
    """A hold whose deadline was moved, to when, and the length of its clock; None: it has none."""

    hold: Hold
    expires: datetime | None
    timeout: timedelta | None


async def claim_scan(connection: Connection, asks: Sequence[Ask], default_timeout: timedelta) -> Handed:
    """Claim the first tasks, for one ask after the other, by walking the index and skipping what others have locked.

    All ask for the same windows. For PostgreSQL.
    """
    windows = asks[0].claim.windows
    queues = [window.queue for window in windows]
    *before, count = accumulate((ask.count for ask in asks), initial=0)
    places = [first + 1 for first in before], [*before[1:], count]
    rest = (default_timeout, *_overrides(asks), *places)
    if len(queues) == 1:
        written = await connection.fetch(load("claim_scan"), *rest, *windows[0], count)
    else:
        written = await connection.fetch(
            load("claim_merge"), *rest, queues, windows[0].state, count, count + SPARE_HEADS
        )
    return _handed(written)


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
    connection: Connection, wanted: Sequence[tuple[Ask, Candidate]], default_timeout: timedelta
) -> Handed:
    """Claim these tasks, each for its ask, as far as they are still what they were and nobody has locked them."""
    columns = *_overrides([ask for ask, _ in wanted]), *_columns([candidate for _, candidate in wanted])
    return _handed(await connection.fetch(load("claim_by_key"), default_timeout, *columns))


async def still_ready(connection: Connection, candidates: Sequence[Candidate]) -> set[UUID]:
    """Tell which of these tasks a claim could have, were they not locked."""
    return {row[0] for row in await connection.fetch(load("still_ready"), *_columns(candidates))}


async def claimed_by(connection: Connection, asks: Sequence[Ask]) -> Handed:
    """Find what these asks hold already."""
    *_, workers, tokens = _overrides(asks)
    return _handed(await connection.fetch(load("claimed_by"), workers, tokens))


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


def _overrides(asks: Sequence[Ask]) -> tuple[Column, ...]:
    claims = [ask.claim for ask in asks]
    return (
        sparse([claim.override_current_state for claim in claims]),
        sparse([claim.override_auto_target_state for claim in claims]),
        sparse([claim.override_timeout for claim in claims]),
        [claim.worker_id for claim in claims],
        [ask.token for ask in asks],
    )


def _handed(written: Iterable[rows.Row]) -> Handed:
    handed: Handed = {}
    for row in written:
        handed.setdefault(row["write_token"], []).append(rows.entry(row))
    return handed
