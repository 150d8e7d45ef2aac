"""The limits of the protocol, each in one place, and the checks that hold them.

Terms that an operator may choose are in `Terms`; the rest is the same on every server, so that a task written
through one can be written through any other.
"""

import re
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Annotated

import msgspec

from corndog.domain.errors import Invalid, TooLarge
from corndog.domain.task import RetryPolicy

NAME_MAX = 255
"""Longest queue, kind, worker id or derived state, in characters."""

STATE_MAX = 240
"""Longest submitted state: leaves room for the suffixes of derived ones."""

DURATION_MAX = timedelta(days=3650)
"""Longest duration: ten years."""

DURATION_MAX_SECONDS = DURATION_MAX.total_seconds()

WAIT_MAX = 60.0
"""Longest wait of a claim, in seconds."""

WINDOW_SIZE_MAX = 100_000
"""Most ready tasks of a queue and state that Redis keeps the ids of."""

PRIORITY_MIN = -(2**31)
PRIORITY_MAX = 2**31 - 1

COUNT_MAX = 2**31 - 1
"""Largest attempt budget or cap of lost deliveries."""

BACKOFF_MULTIPLIER_MAX = 1000.0

ERROR_MAX = 64 * 1024
"""Longest text of a failure that is kept, in bytes of UTF-8."""

DELIVERY_MAX = 2**63 - 1

CONTROL_PATTERN = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"
"""No control characters (Unicode category Cc), as ECMA-262 writes it: for schemas."""

NO_NUL_PATTERN = "^[^\\u0000]*$"
"""No U+0000, as ECMA-262 writes it: for schemas."""

MEDIA_TYPE_PATTERN = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+( *;[ -~]*)?$"
"""A media type with parameters, in printable ASCII (RFC 9110, section 8.3.1)."""

SPAN_PATTERN = "^([0-9]{1,9}([.][0-9]{1,6})?|([0-9]{1,9}([.][0-9]{1,6})?[dhms])+)$"
"""A length of time as people write it: seconds, or numbers with the units of days, hours, minutes and seconds."""

_SPAN = re.compile(SPAN_PATTERN)
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MEDIA_TYPE = re.compile(MEDIA_TYPE_PATTERN)
_FINER = re.compile(r"\.\d{6}(\d+)")
_MICROSECONDS = 1_000_000
_CUT = " … (cut)"
_INFINITY = datetime.max.replace(tzinfo=UTC)
"""What the database's driver writes for the last instant of Python, and reads back without an offset."""
_Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator sets: limits, in bytes or numbers of items, and how tasks are retried that don't say it."""

    payload: int
    metadata: int
    items: int
    page: int
    retry: RetryPolicy = RetryPolicy()


def check_name(value: str | None, field: str) -> None:
    """Refuse control characters; length is held where the value is decoded.

    Raises:
        Invalid: the value has a control character.

    """
    if value is not None and (found := _CONTROL.search(value)):
        raise Invalid(
            f"control characters are not allowed (U+{ord(found.group()):04X} at position {found.start()})",
            field=field,
        )


def failure_text(text: str, field: str) -> str:
    """Give the text of a failure as it is kept: what is too long is cut, and marked as cut.

    Raises:
        Invalid: it has a NUL, which no database keeps in a text.

    """
    if "\0" in text:
        raise Invalid(f"U+0000 is not allowed (at position {text.index(chr(0))})", field=field)
    data = text.encode()
    if len(data) <= ERROR_MAX:
        return text
    return data[: ERROR_MAX - len(_CUT.encode())].decode(errors="ignore") + _CUT


def check_media_type(value: str, field: str) -> None:
    """Refuse what could not be sent as a Content-Type header.

    Raises:
        Invalid: the value is not a media type.

    """
    if not _MEDIA_TYPE.fullmatch(value) or len(value) > NAME_MAX:
        raise Invalid("not a media type such as `application/json`", field=field)


def check_size(size: int, limit: int, field: str) -> None:
    """Hold a size in bytes to its limit.

    Raises:
        TooLarge: beyond it.

    """
    if size > limit:
        raise TooLarge(field, size, limit)


def duration(seconds: float | None, field: str) -> timedelta | None:
    """Turn seconds into a duration, exactly.

    Raises:
        Invalid: negative, not finite, over ten years, or finer than a microsecond.

    """
    if seconds is None:
        return None
    if not isfinite(seconds) or not 0 <= seconds <= DURATION_MAX_SECONDS:
        raise Invalid(f"seconds from 0 to {DURATION_MAX_SECONDS:.0f} (ten years) are allowed", field=field)
    micros = round(seconds * _MICROSECONDS)
    if micros / _MICROSECONDS != seconds:
        raise Invalid("at most 6 decimals are allowed", field=field)
    return timedelta(microseconds=micros)


def span(text: str | None, field: str) -> timedelta | None:
    """Read a length of time such as `90s`, `2m`, `1h30m`, or plain seconds.

    Raises:
        Invalid: it is none, zero, or over ten years.

    """
    if text is None:
        return None
    parts = re.findall(r"([0-9.]+)([dhms]?)", text) if _SPAN.fullmatch(text) else ()
    length = sum((float(number) * _UNITS[unit or "s"] for number, unit in parts), timedelta())
    if not timedelta() < length <= DURATION_MAX:
        raise Invalid(
            "a length of time is expected, up to ten years, such as 90s, 2m, 1h30m or plain seconds", field=field
        )
    return length


def instant(text: str | None, field: str) -> datetime | None:
    """Read an RFC 3339 time that says its offset, as UTC; what is finer than a microsecond is rounded up.

    Raises:
        Invalid: it is none, or not in the years 1 to 9999 of UTC; their last microsecond is none either.

    """
    if text is None:
        return None
    try:
        finer = _FINER.search(text)
        whole = text[: finer.start(1)] + text[finer.end(1) :] if finer else text
        time = msgspec.convert(whole, _Instant).astimezone(UTC)
        if finer and int(finer.group(1)):
            # Cut to microseconds, a time to come would come early.
            time += timedelta(microseconds=1)
    except (msgspec.ValidationError, OverflowError):
        time = _INFINITY
    if time == _INFINITY:
        raise Invalid("an RFC 3339 time with an offset is expected, such as 2030-01-31T08:00:00Z", field=field)
    return time
