"""The limits of design section 2, at and around each of them."""

import json
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corndog.domain import limits
from corndog.domain.errors import Code, Invalid, TooLarge
from tests.unit.strategies import MICROSECOND

MOST = limits.DURATION_MAX // MICROSECOND


# Durations -------------------------------------------------------------------


@given(st.integers(0, MOST) | st.integers(MOST - 1000, MOST) | st.integers(0, 1000))
def test_every_microsecond_is_kept(micros: int) -> None:
    text = f"{micros // 1_000_000}.{micros % 1_000_000:06d}"
    duration = limits.duration(json.loads(text), "delay")
    assert duration == timedelta(microseconds=micros)
    assert limits.duration(duration.total_seconds(), "delay") == duration  # what was answered can be sent back


@given(st.integers(0, 10**9), st.integers(1, 9))
def test_finer_than_a_microsecond_is_refused(micros: int, digit: int) -> None:
    with pytest.raises(Invalid, match="6 decimals") as refusal:
        limits.duration(float(f"{micros // 1_000_000}.{micros % 1_000_000:06d}{digit}"), "delay")
    assert refusal.value.field == "delay"


@pytest.mark.parametrize("seconds", [-1, -0.000001, 315_360_000.000001, 2**31, 2**63, 1e18, inf, -inf, nan, 1e308])
def test_durations_out_of_range(seconds: float) -> None:
    with pytest.raises(Invalid, match="from 0 to 315360000") as refusal:
        limits.duration(seconds, "timeout")
    assert (refusal.value.field, refusal.value.code) == ("timeout", Code.INVALID)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, None),
        (0, timedelta(0)),
        (-0.0, timedelta(0)),
        (0.000001, MICROSECOND),
        (30 * 86400, timedelta(days=30)),
        (315_360_000, timedelta(days=3650)),
        (315_359_999.999999, timedelta(days=3650) - MICROSECOND),
    ],
)
def test_durations_in_range(seconds: float | None, expected: timedelta | None) -> None:
    assert limits.duration(seconds, "timeout") == expected


# Lengths of time as people write them -----------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("90", timedelta(seconds=90)),
        ("0.000001", MICROSECOND),
        ("90s", timedelta(seconds=90)),
        ("2m", timedelta(minutes=2)),
        ("1h", timedelta(hours=1)),
        ("1h30m", timedelta(minutes=90)),
        ("30m1h", timedelta(minutes=90)),
        ("1.5h0.5s", timedelta(hours=1.5, seconds=0.5)),
        ("3650d", timedelta(days=3650)),
        ("087600h", timedelta(days=3650)),
    ],
)
def test_lengths_of_time(text: str | None, expected: timedelta | None) -> None:
    assert limits.span(text, "active_since") == expected


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from("dhms")), min_size=1, max_size=4))
def test_a_length_of_time_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    seconds = sum(number * {"d": 86400, "h": 3600, "m": 60, "s": 1}[unit] for number, unit in parts)
    text = "".join(f"{number}{unit}" for number, unit in parts)
    if 0 < seconds <= limits.DURATION_MAX_SECONDS:
        assert limits.span(text, "active_since") == timedelta(seconds=seconds)
    else:
        with pytest.raises(Invalid, match="length of time"):
            limits.span(text, "active_since")


@given(st.text(st.sampled_from("0123456789.dhms-+ ex,\n٢"), max_size=8))
def test_any_text_is_a_length_of_time_or_is_refused(text: str) -> None:
    try:
        length = limits.span(text, "active_since")
    except Invalid:
        assert not text.isdecimal() or not text.isascii() or int(text) == 0
    else:
        assert length is not None
        assert timedelta() < length <= limits.DURATION_MAX
        assert text[0].isdigit()


# Names -----------------------------------------------------------------------


@given(st.characters())
def test_exactly_the_control_characters_are_refused_in_names(character: str) -> None:
    name = f"é😀{character}"
    if unicodedata.category(character) == "Cc":
        with pytest.raises(Invalid, match=f"U\\+{ord(character):04X} at position 2") as refusal:
            limits.check_name(name, "queue")
        assert refusal.value.field == "queue"
    else:
        limits.check_name(name, "queue")


@pytest.mark.parametrize("name", [f"a{chr(code)}" for code in [0, 9, 10, 13, 31, 127, 128, 159]])
def test_control_characters(name: str) -> None:
    with pytest.raises(Invalid, match="control characters"):
        limits.check_name(name, "kind")


@pytest.mark.parametrize("name", [None, "", "a/b+c %2F?#é😀", "\u2028", "\xa0", "~"])
def test_other_names(name: str | None) -> None:
    limits.check_name(name, "kind")


# Terms, media types, times -----------------------------------------------------


def test_sizes() -> None:
    limits.check_size(0, 0, "result")
    limits.check_size(5, 5, "result")
    with pytest.raises(TooLarge, match="6 bytes, at most 5") as refusal:
        limits.check_size(6, 5, "result")
    assert (refusal.value.field, refusal.value.code) == ("result", Code.TOO_LARGE)


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "text/plain; charset=utf-8", "application/vnd.a+json", "a/b;c", "a/b ;c=d", "a/" + "b" * 253],
)
def test_media_types(media_type: str) -> None:
    limits.check_media_type(media_type, "content_type")


@pytest.mark.parametrize(
    "media_type",
    ["", "text", "text/", "/plain", "text/plain\n", "text/plain; a=é", "text/plain\r\nX: y", "a b/c", "a/" + "b" * 254],
)
def test_what_is_no_media_type(media_type: str) -> None:
    with pytest.raises(Invalid) as refusal:
        limits.check_media_type(media_type, "content_type")
    assert refusal.value.field == "content_type"


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)), st.integers(-23 * 60 - 59, 23 * 60 + 59))  # noqa: DTZ001
def test_every_offset_gives_the_same_instant(naive: datetime, minutes: int) -> None:
    time = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    read = limits.instant(time.isoformat(), "run_at")
    assert read == time
    assert read is not None
    assert read.tzinfo is UTC


def test_the_ends_of_time() -> None:
    assert limits.instant("0001-01-01T00:00:00Z", "at_time") == datetime(1, 1, 1, tzinfo=UTC)
    last = datetime.max.replace(tzinfo=UTC) - MICROSECOND
    assert limits.instant("9999-12-31T23:59:59.999998Z", "at_time") == last


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1900000000",
        "2030-01-31",
        "2030-01-31T08:00:00",
        "2030-01-31T08:00Z",
        "2030-02-30T08:00:00Z",
        "2030-01-31T24:00:00Z",
        "2030-01-31T23:59:60Z",
        "2030-01-31T08:00:00+25:00",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:59.999999Z",  # the driver takes it for infinity
        "9999-12-31T22:59:59.999999-01:00",
        "10000-01-01T00:00:00Z",
    ],
)
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(Invalid, match="RFC 3339") as refusal:
        limits.instant(text, "run_at")
    assert refusal.value.field == "run_at"


@pytest.mark.parametrize(
    ("fraction", "micros"),
    [("123456", 123456), ("123456000", 123456), ("1234561", 123457), ("123456789", 123457), ("999999999", 1_000_000)],
)
def test_what_is_finer_than_a_microsecond_is_rounded_up(fraction: str, micros: int) -> None:
    whole = datetime(2030, 1, 1, tzinfo=UTC)
    assert limits.instant(f"2030-01-01T00:00:00.{fraction}Z", "run_at") == whole + timedelta(microseconds=micros)
    assert limits.instant(f"2030-01-01T01:00:00.{fraction}+01:00", "run_at") == whole + timedelta(microseconds=micros)


def test_no_instant_is_none() -> None:
    assert limits.instant(None, "run_at") is None
