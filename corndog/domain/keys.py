"""Idempotency keys: what a request has made under one, and for how long the key is remembered."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec


class Key(msgspec.Struct, frozen=True):
    """The name that a client gives to a request, and the hash by which the same request is known again."""

    text: str
    request: bytes


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What a request makes, under ids of its own: tasks or a job; `answer` is what else its answer says."""

    task_ids: tuple[UUID, ...] = ()
    job_id: UUID | None = None
    answer: bytes | None = None


class Kept(NamedTuple):
    """What is remembered under a key."""

    request: bytes
    made: Made


class Remains(NamedTuple):
    """What has become of all that was made under a key: whether any of it is live, and when the last of it ended.

    With neither, it is purged; `was_gone` tells whether that was found before.
    """

    is_live: bool
    end_time: datetime | None
    was_gone: bool


class Renewal(NamedTuple):
    """When a key is looked at again, and whether all that was made under it is purged."""

    check_time: datetime
    is_gone: bool


def renewal(remains: Remains, now: datetime, ttl: timedelta) -> Renewal | None:
    """Tell for how long a key is kept at least: as long as what was made under it, and `ttl` longer; None: drop it."""
    if remains.is_live:
        return Renewal(now + ttl, is_gone=False)
    if remains.end_time is not None:
        until = remains.end_time + ttl
        return Renewal(until, is_gone=False) if until > now else None
    # When it ended is not known any more: not later than now.
    return None if remains.was_gone else Renewal(now + ttl, is_gone=True)
