"""How long a failed task waits: any policy, to its limits."""

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from corndog.domain.limits import COUNT_MAX, DURATION_MAX
from corndog.domain.retry import backoff, is_spent, pause
from corndog.domain.task import Failure, Jitter, Task
from tests.unit.samples import held
from tests.unit.strategies import MICROSECOND, durations

ZERO = timedelta(0)
HIGHEST = 2**31 - 1
attempts = st.sampled_from([0, 1, 2, 1000, HIGHEST - 1]) | st.integers(0, HIGHEST - 1)
multipliers = st.sampled_from([1.0, 1 + 2**-52, 2.0, 1000.0]) | st.floats(1, 1000)
chances = st.sampled_from([0.0, 0.5, 1 - 2**-53]) | st.floats(0, 1, exclude_max=True)
FULL = {"jitter": Jitter.FULL}


@st.composite
def failing(draw: st.DrawFn, /, **fixed: Any) -> Task:  # noqa: ANN401
    drawn = {
        "attempt": draw(attempts),
        "backoff": draw(durations),
        "backoff_max": draw(durations),
        "backoff_multiplier": draw(multipliers),
        "jitter": Jitter.NONE,
    }
    return msgspec.structs.replace(held(), **drawn | fixed)


def worst(**fields: Any) -> Task:  # noqa: ANN401
    return msgspec.structs.replace(
        held(),
        **{
            "attempt": HIGHEST,
            "backoff": DURATION_MAX,
            "backoff_max": DURATION_MAX,
            "backoff_multiplier": 1000.0,
            "jitter": Jitter.NONE,
        }
        | fields,
    )


@given(failing())
@example(worst())
@example(worst(backoff=MICROSECOND, backoff_max=MICROSECOND))
@example(worst(backoff_multiplier=1.0))
def test_a_pause_is_never_negative_nor_over_the_cap(task: Task) -> None:
    assert ZERO <= pause(task, Failure()) <= task.backoff_max
    assert pause(task, Failure()) >= min(task.backoff, task.backoff_max) - MICROSECOND


@given(failing())
@example(worst(attempt=HIGHEST - 1))
@example(worst(attempt=86, backoff=MICROSECOND))
def test_it_grows_with_each_failure(task: Task) -> None:
    after = msgspec.structs.replace(task, attempt=task.attempt + 1)
    assert backoff(task) <= backoff(after)
    assert pause(task, Failure()) <= pause(after, Failure())


@given(st.integers(0, 20), st.timedeltas(MICROSECOND, timedelta(hours=1)))
def test_it_doubles_until_it_reaches_the_cap(attempt: int, first: timedelta) -> None:
    task = worst(attempt=attempt, backoff=first, backoff_max=timedelta(hours=2), backoff_multiplier=2.0)
    assert abs(pause(task, Failure()) - min(first * 2**attempt, timedelta(hours=2))) <= MICROSECOND


@given(failing(**FULL), chances)
def test_full_jitter_is_spread_from_zero_to_the_whole(task: Task, chance: float) -> None:
    whole = pause(msgspec.structs.replace(task, jitter=Jitter.NONE), Failure())
    spread = pause(task, Failure(chance=chance))
    assert ZERO <= spread <= whole
    assert abs(spread - whole * chance) <= 2 * MICROSECOND
    assert pause(task, Failure(chance=0.0)) == ZERO


@given(failing(), chances)
def test_without_jitter_chance_has_no_say(task: Task, chance: float) -> None:
    assert pause(task, Failure(chance=chance)) == pause(task, Failure())


@given(failing(jitter=Jitter.FULL) | failing(), durations, chances)
def test_what_the_worker_says_wins(task: Task, retry_in: timedelta, chance: float) -> None:
    assert pause(task, Failure(retry_in=retry_in, chance=chance)) == retry_in


@given(st.none() | st.integers(1, COUNT_MAX), attempts)
def test_the_budget_is_spent_at_its_last_attempt(budget: int | None, attempt: int) -> None:
    task = worst(max_attempts=budget, attempt=attempt)
    assert is_spent(task) is (budget is not None and attempt >= budget - 1)
