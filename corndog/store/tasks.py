"""One function for each statement that writes tasks.

Each takes a group of items and answers with the tasks it wrote, by id; an item that is missing from the answer was
refused by its own rule, and `look_up` tells why. All of them can be run again after a lost connection: `submit` and
`end` find their own ids and hashes, the others the token that they stamped on the row.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from corndog.domain import transitions
from corndog.domain.keys import Key
from corndog.domain.task import (
    Candidate,
    Change,
    Content,
    Failure,
    Match,
    Membership,
    NewTask,
    Outcome,
    Phase,
    Task,
)
from corndog.store import rows
from corndog.store.engine import Connection
from corndog.store.rows import Found
from corndog.store.statements import Column, load, sparse


class Submission(msgspec.Struct, frozen=True):
    """A task to be submitted under an id that the service has made; `member` is its place in a job.

    With a key, it is submitted unless that is taken.
    """

    id: UUID
    new: NewTask
    member: Membership | None = None
    key: Key | None = None


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be archived; `request` is the hash by which a repeat is known.

    One that fails has an `error`, and `if_spent` ends it only if this failure is its last by its budget.
    """

    id: UUID
    match: Match
    request: bytes | None = None
    next_task_ids: Sequence[UUID] = ()
    result: Content | None = None
    error: str | None = None
    if_spent: bool = False


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """A held task that has failed and may have more attempts."""

    id: UUID
    match: Match
    failure: Failure
    request: bytes
    token: UUID


class Sought(NamedTuple):
    """A task to be looked up, and the delivery whose end is of interest."""

    id: UUID
    delivery: int | None


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be updated; `token` marks the row as written by this request."""

    id: UUID
    match: Match
    change: Change
    request: bytes
    token: UUID


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A held task to be given back."""

    id: UUID
    match: Match
    delay: timedelta | None
    request: bytes
    token: UUID


async def submit(
    connection: Connection, items: Sequence[Submission], key_ttl: timedelta = timedelta()
) -> dict[UUID, Task]:
    """Submit tasks in the order given; ids that exist already are left alone and not answered. Keys live for `key_ttl`.

    The statement tells which it has written, and when: all else is said by the rule that it restates.
    """
    news = [item.new for item in items]
    policies = [new.policy for new in news]
    members = [item.member for item in items]
    written = await connection.fetch(
        load("submit"),
        [item.id for item in items],
        [new.queue for new in news],
        sparse([new.kind for new in news]),
        [new.current_state for new in news],
        sparse([new.auto_target_state for new in news]),
        [-new.priority for new in news],
        sparse([new.delay for new in news]),
        sparse([new.run_at for new in news]),
        sparse([new.timeout for new in news]),
        sparse([new.work_timeout for new in news]),
        [policy.max_attempts for policy in policies],
        [policy.backoff for policy in policies],
        [policy.backoff_max for policy in policies],
        [policy.backoff_multiplier for policy in policies],
        [policy.jitter.value for policy in policies],
        sparse([policy.max_lost for policy in policies]),
        sparse([new.metadata for new in news]),
        *_contents(new.payload for new in news),
        sparse([member.job_id if member else None for member in members]),
        sparse([member.name if member else None for member in members]),
        [member.waiting_on if member else 0 for member in members],
        sparse([item.key.text if item.key else None for item in items]),
        sparse([item.key.request if item.key else None for item in items]),
        key_ttl,
    )
    now: dict[UUID, datetime] = dict(map(tuple, written))
    return {
        item.id: transitions.submit(item.new, item.id, now[item.id], place, item.member)
        for place, item in enumerate(items)
        if item.id in now
    }


async def end(
    connection: Connection,
    items: Sequence[Ending],
    *,
    phase: Phase,
    outcome: Outcome,
    any_phase: bool = False,
    with_dependents: bool = False,
) -> dict[UUID, Task]:
    """Archive tasks with their results. `any_phase` lets an item without a delivery end held and blocked tasks too.

    Tasks that others wait for are left alone unless `with_dependents`: then `cascade` and `settle` are to follow.
    """
    written = await connection.fetch(
        load("end"),
        *_matches(items),
        [item.request for item in items],
        [_array_text(item.next_task_ids) for item in items],
        *_contents(item.result for item in items),
        phase.value,
        any_phase,
        outcome.value,
        with_dependents,
        sparse([item.error for item in items]),
        [item.if_spent for item in items],
    )
    return _by_id(written)


async def fail(connection: Connection, items: Sequence[Failing]) -> dict[UUID, Task]:
    """Use up an attempt of held tasks that have more."""
    failures = [item.failure for item in items]
    written = await connection.fetch(
        load("fail"),
        *_matches(items),
        [failure.error for failure in failures],
        [failure.retry_in for failure in failures],
        [failure.chance for failure in failures],
        [item.request for item in items],
        [item.token for item in items],
    )
    return _by_id(written)


async def revive(
    connection: Connection, waiting_on: Mapping[UUID, int], token: UUID, *, of_jobs: bool = False
) -> dict[UUID, Task]:
    """Make ended tasks live again that are to wait for so many others; those of jobs only if `of_jobs`."""
    return _by_id(await connection.fetch(load("revive"), list(waiting_on), list(waiting_on.values()), token, of_jobs))


async def cascade(connection: Connection, ids: Iterable[UUID]) -> list[Task]:
    """Cancel all that waits for these tasks, which have failed or were canceled."""
    return _tasks(await connection.fetch(load("cascade"), list(ids)))


async def settle(connection: Connection, ids: Iterable[UUID], *, completed: bool) -> list[Task]:
    """Count these tasks, which have ended, as done for those that wait for them; answers the latter."""
    return _tasks(await connection.fetch(load("settle"), list(ids), completed))


async def update(connection: Connection, items: Sequence[Update]) -> dict[UUID, Task]:
    """Move tasks to new states, or write their progress."""
    changes = [item.change for item in items]
    written = await connection.fetch(
        load("update"),
        *_matches(items),
        [change.new_state for change in changes],
        [change.auto_target_state for change in changes],
        [change.timeout for change in changes],
        [-change.priority for change in changes],
        *_contents(change.payload for change in changes),
        [item.request for item in items],
        [item.token for item in items],
    )
    return _by_id(written)


async def release(connection: Connection, items: Sequence[Release]) -> dict[UUID, Task]:
    """Give held tasks back."""
    written = await connection.fetch(
        load("release"),
        *_matches(items),
        [item.delay for item in items],
        [item.request for item in items],
        [item.token for item in items],
    )
    return _by_id(written)


async def sweep(
    connection: Connection, *, at_time: datetime, began: datetime, queue: str | None, batch: int
) -> list[Task]:
    """Swap back a batch of tasks whose clocks ran out."""
    return _tasks(await connection.fetch(load("sweep"), at_time, began, queue, batch))


async def sweep_dead(
    connection: Connection, *, at_time: datetime, began: datetime, queue: str | None, batch: int
) -> list[Task]:
    """Archive a batch of tasks that were lost once more than they may be."""
    return _tasks(await connection.fetch(load("sweep_dead"), at_time, began, queue, batch))


async def unpark(connection: Connection, batch: int) -> list[Candidate]:
    """Make a batch of parked tasks ready whose time has come; where they can be claimed now."""
    return [rows.candidate(row) for row in await connection.fetch(load("unpark"), batch)]


async def look_up(connection: Connection, asked: Sequence[Sought]) -> list[Found | None]:
    """Find tasks wherever they are, each with how the delivery asked for ended; in the order given."""
    deliveries = sparse([sought.delivery for sought in asked])
    read = await connection.fetch(load("look_up"), [sought.id for sought in asked], deliveries)
    found = {row["place"]: rows.found(row) for row in read}
    return [found.get(place) for place, _ in enumerate(asked, start=1)]


def _by_id(written: Iterable[rows.Row]) -> dict[UUID, Task]:
    return {task.id: task for task in _tasks(written)}


def _tasks(written: Iterable[rows.Row]) -> list[Task]:
    return [rows.task(row) for row in written]


def _matches(items: Sequence[Ending | Failing | Update | Release]) -> tuple[Column, ...]:
    return (
        [item.id for item in items],
        sparse([item.match.queue for item in items]),
        sparse([item.match.current_state for item in items]),
        [item.match.delivery for item in items],
    )


def _contents(contents: Iterable[Content | None]) -> tuple[Column, ...]:
    given = list(contents)
    return (
        sparse([item.data if item else None for item in given]),
        sparse([item.media_type if item else None for item in given]),
        sparse([item.is_json if item else None for item in given]),
    )


def _array_text(ids: Iterable[UUID]) -> str:
    """Write ids as an array literal: arrays of arrays of unequal lengths can't be passed."""
    return "{" + ",".join(map(str, ids)) + "}"
