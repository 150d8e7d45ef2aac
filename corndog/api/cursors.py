"""Cursors: opaque to clients, and good only for the listing they came from."""

from base64 import b64decode, urlsafe_b64encode
from datetime import UTC
from hashlib import blake2b
from typing import TypeVar

import msgspec

from corndog.domain.errors import Code, Invalid
from corndog.domain.limits import check_name
from corndog.domain.listing import Place

_DIGEST = 8
_T = TypeVar("_T")


def encode_cursor(place: Place | str | None, wanted: msgspec.Struct) -> str | None:
    """Name a place in a listing; None for its end."""
    if place is None:
        return None
    packed = msgspec.msgpack.encode(place)
    return urlsafe_b64encode(_digest(packed, wanted) + packed).decode().rstrip("=")


def decode_cursor(cursor: str | None, wanted: msgspec.Struct) -> Place:
    """Find the place that a cursor names; without one, the beginning.

    Raises:
        Invalid: the cursor is none of ours, or comes from a listing with other filters.

    """
    if cursor is None:
        return Place()
    place = _decode(cursor, wanted, Place)
    try:
        # The digest proves no origin: anybody can compute it, for a place whose time is none in UTC, too.
        return Place(place.submit_time.astimezone(UTC), place.id)
    except (ValueError, OverflowError):
        raise _foreign() from None


def decode_name_cursor(cursor: str | None, wanted: msgspec.Struct) -> str:
    """Find the name that a cursor of a listing by names stands for; without one, what comes before all names.

    Raises:
        Invalid: the cursor is none of ours, or comes from a listing with other filters.

    """
    if cursor is None:
        return ""
    name = _decode(cursor, wanted, str)
    try:
        check_name(name, "cursor")
    except Invalid:
        raise _foreign() from None
    return name


def _decode(cursor: str, wanted: msgspec.Struct, kind: type[_T]) -> _T:
    try:
        given = b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        digest, packed = given[:_DIGEST], given[_DIGEST:]
        if digest == _digest(packed, wanted):
            return msgspec.msgpack.decode(packed, type=kind)
    except ValueError:
        pass
    raise _foreign()


def _foreign() -> Invalid:
    return Invalid("this cursor does not belong to a listing with these filters", field="cursor", code=Code.CURSOR)


def _digest(packed: bytes, wanted: msgspec.Struct) -> bytes:
    return blake2b(packed + msgspec.msgpack.encode(wanted), digest_size=_DIGEST).digest()
