"""Answers about workers and what they hold."""

from collections.abc import Iterable
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.answers.times import text
from corndog.api.fields import Time
from corndog.domain import task as domain
from corndog.domain.task import Standing


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
    """How each delivery stands, in the order of the request."""

    deliveries: list[Beat]


def view_beats(answered: Iterable[domain.Beat]) -> Beats:
    """Answer a heartbeat."""
    return Beats(
        [
            Beat(
                beat.id, beat.delivery, beat.standing, None if beat.lease_expires is None else text(beat.lease_expires)
            )
            for beat in answered
        ]
    )
