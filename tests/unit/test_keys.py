"""For how long an idempotency key is kept: design section 5."""

from datetime import UTC, datetime, timedelta

import pytest

from corndog.domain.keys import Remains, Renewal, renewal

NOW = datetime(2030, 1, 31, 8, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MOMENT = timedelta(microseconds=1)


@pytest.mark.parametrize("ended", [None, NOW - 2 * DAY])
@pytest.mark.parametrize("was_gone", [False, True])
def test_while_anything_lives_it_stays(ended: datetime | None, was_gone: bool) -> None:
    assert renewal(Remains(True, ended, was_gone), NOW, DAY) == Renewal(NOW + DAY, is_gone=False)


@pytest.mark.parametrize("ended", [NOW, NOW - HOUR, NOW - DAY + MOMENT])
def test_it_stays_until_its_time_after_the_last_end(ended: datetime) -> None:
    assert renewal(Remains(False, ended, False), NOW, DAY) == Renewal(ended + DAY, is_gone=False)


@pytest.mark.parametrize("ended", [NOW - DAY, NOW - DAY - MOMENT])
def test_it_goes_when_that_time_is_over(ended: datetime) -> None:
    assert renewal(Remains(False, ended, False), NOW, DAY) is None


def test_what_was_purged_before_the_key_is_remembered_once_more() -> None:
    assert renewal(Remains(False, None, False), NOW, DAY) == Renewal(NOW + DAY, is_gone=True)
    assert renewal(Remains(False, None, True), NOW, DAY) is None


def test_what_ended_after_it_lived_again_counts_from_there() -> None:
    assert renewal(Remains(False, NOW - HOUR, True), NOW, DAY) == Renewal(NOW - HOUR + DAY, is_gone=False)


def test_without_a_time_it_goes_with_its_tasks() -> None:
    assert renewal(Remains(False, NOW, False), NOW, timedelta(0)) is None
