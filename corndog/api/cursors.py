"""Cursors: opaque to clients, and good only for the listing they came from."""

from base64 import b64decode, urlsafe_b64encode
from datetime import UTC
from hashlib import blake2b

import msgspec

from corndog.domain.errors import Code, Invalid
from corndog.domain.jobs import JobFilter
from corndog.domain.listing import Filter, Place

_DIGEST = 8


def encode_cursor(place: Place | None, wanted: Filter | JobFilter) -> str | None:
    """Name a place in a listing; None for its end."""
    if place is None:
        return None
    packed = msgspec.msgpack.encode(place)
    return urlsafe_b64encode(_digest(packed, wanted) + packed).decode().rstrip("=")


def decode_cursor(cursor: str | None, wanted: Filter | JobFilter) -> Place:
    """Find the place that a cursor names; without one, the beginning.

    Raises:
        Invalid: the cursor is none of ours, or comes from a listing with other filters.

    """
    if cursor is None:
        return Place()
    try:
        given = b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        digest, packed = given[:_DIGEST], given[_DIGEST:]
        if digest == _digest(packed, wanted):
            place = msgspec.msgpack.decode(packed, type=Place)
            # The digest proves no origin: anybody can compute it, for a place whose time is none in UTC, too.
            return Place(place.submit_time.astimezone(UTC), place.id)
    except (ValueError, OverflowError):
        pass
    raise Invalid("this cursor does not belong to a listing with these filters", field="cursor", code=Code.CURSOR)


def _digest(packed: bytes, wanted: Filter | JobFilter) -> bytes:
    return blake2b(packed + msgspec.msgpack.encode(wanted), digest_size=_DIGEST).digest()
