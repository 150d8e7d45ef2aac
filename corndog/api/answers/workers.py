"""Answers about workers and what they hold."""

from collections.abc import Iterable
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.answers.times import text
from corndog.api.fields import JsonObject, Time
from corndog.api.media import Media
from corndog.domain import task as domain
from corndog.domain import workers as fleet
from corndog.domain.task import Standing
from corndog.service.workers import Told


class Beat(msgspec.Struct):
    """How one delivery stands."""

    id: UUID
    delivery: int
    status: Annotated[
        Standing,
        Meta(description="`held`: go on. `canceled`: the task was canceled. `lost`: others hold or have ended it."),
    ]
    lease_expires: Annotated[
        Time | None, Meta(description="Until when it is held, by the database's commit; null: not held, or no clock.")
    ]


class Beats(msgspec.Struct):
    """How each delivery stands, in the order of the request, and what the worker is to do."""

    deliveries: list[Beat]
    drain: Annotated[bool, Meta(description="Whether to claim no more, and to end once nothing is held.")]


class HeldByWorker(msgspec.Struct):
    """A delivery that a worker holds."""

    id: UUID
    queue: str
    current_state: str
    kind: str | None
    delivery: int
    claim_time: Time
    due_time: Annotated[Time | None, Meta(description="End of its clock; null: none.")]
    overdue: Annotated[bool, Meta(description="Whether its clock has run out, and no sweep has ended it yet.")]


class Worker(msgspec.Struct):
    """A worker that sends heartbeats, or holds something."""

    worker_id: str
    first_seen: Time
    last_seen: Annotated[Time, Meta(description="Its last heartbeat, or its latest claim among what it holds.")]
    active: Annotated[bool, Meta(description="Whether it was seen within `active_since`, or two minutes.")]
    draining: Annotated[bool, Meta(description="Whether it is told to take no more and end.")]
    metadata: Annotated[JsonObject | None, Meta(description="What it said of itself.")]
    held: Annotated[int, Meta(description="How many deliveries it holds.")]
    holds: Annotated[
        list[HeldByWorker],
        Meta(
            max_length=fleet.HOLDS_MAX,
            description="Those that it has held for longest, whichever process of its name claimed them.",
        ),
    ]


class Fleet(msgspec.Struct):
    """Workers, in order of their names."""

    workers: list[Worker]
    next_cursor: Annotated[str | None, Meta(description="Leads to the next page; null: this is the last.")]


class Drained(msgspec.Struct):
    """What became of the wish to have workers drained, or drained no more."""

    workers: Annotated[list[str], Meta(description="Those that are marked as was asked.")]
    unknown: Annotated[list[str], Meta(description="Those that have sent no heartbeat and hold nothing.")]


def view_beats(told: Told) -> Beats:
    """Answer a heartbeat."""
    return Beats(list(map(_beat, told.beats)), told.drain)


def view_workers(media: Media, workers: Iterable[fleet.Worker]) -> list[Worker]:
    """Show workers."""
    return [
        Worker(
            worker_id=worker.id,
            first_seen=text(worker.first_seen),
            last_seen=text(worker.last_seen),
            active=worker.is_active,
            draining=worker.drains,
            metadata=None if worker.metadata is None else media.write_object(worker.metadata),
            held=worker.held,
            holds=list(map(_held, worker.holds)),
        )
        for worker in workers
    ]


def _beat(beat: domain.Beat) -> Beat:
    return Beat(beat.id, beat.delivery, beat.standing, None if beat.lease_expires is None else text(beat.lease_expires))


def _held(hold: fleet.Holding) -> HeldByWorker:
    return HeldByWorker(
        id=hold.id,
        queue=hold.queue,
        current_state=hold.current_state,
        kind=hold.kind,
        delivery=hold.delivery,
        claim_time=text(hold.claim_time),
        due_time=None if hold.due_time is None else text(hold.due_time),
        overdue=hold.is_overdue,
    )
