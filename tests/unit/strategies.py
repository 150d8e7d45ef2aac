"""What Hypothesis draws: everything that may be asked for, with a liking for the limits."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from corndog.domain.limits import COUNT_MAX, DURATION_MAX, NAME_MAX, PRIORITY_MAX, PRIORITY_MIN, STATE_MAX
from corndog.domain.task import (
    WORKING_SUFFIX,
    Change,
    Claim,
    Content,
    Failure,
    Jitter,
    Membership,
    NewTask,
    RetryPolicy,
)

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

texts = st.characters(exclude_categories=["Cs", "Cc"])
names = st.text(texts, min_size=1, max_size=8) | st.text(texts, min_size=NAME_MAX, max_size=NAME_MAX)
states = st.sampled_from(["a", "b", "a-working", "a-scheduled", "completed"]) | st.text(
    # A clock that is put on a ready task ends in its `-working` state, which may be parked later: two suffixes.
    texts,
    min_size=1,
    max_size=STATE_MAX - len(WORKING_SUFFIX),
)
durations = (
    st.sampled_from([timedelta(0), MICROSECOND, timedelta(seconds=300), DURATION_MAX - MICROSECOND, DURATION_MAX])
    | st.timedeltas(timedelta(0), DURATION_MAX)
)  # fmt: skip
times = st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - see timezones
priorities = st.sampled_from([PRIORITY_MIN, -1, 0, 1, PRIORITY_MAX]) | st.integers(PRIORITY_MIN, PRIORITY_MAX)
counts = st.sampled_from([1, 2, 3, COUNT_MAX])
contents = st.builds(
    Content, st.binary(max_size=16), st.sampled_from(["text/plain", "application/octet-stream"]), st.just(value=False)
)

policies = st.builds(
    RetryPolicy,
    max_attempts=st.none() | counts,
    backoff=durations,
    backoff_max=durations,
    backoff_multiplier=st.floats(1, 1000),
    jitter=st.sampled_from(Jitter),
    max_lost=st.none() | counts,
)


@st.composite
def new_tasks(draw: st.DrawFn) -> NewTask:
    """Draw a submit that keeps the rules: one of `delay` and `run_at`, and no clock without a target."""
    target = draw(st.none() | states)
    delay, run_at = draw(st.tuples(st.none() | durations, st.none()) | st.tuples(st.none(), times))
    return NewTask(
        queue=draw(names),
        kind=draw(st.none() | names),
        current_state=draw(states),
        auto_target_state=target,
        priority=draw(priorities),
        delay=delay,
        run_at=run_at,
        timeout=draw(st.none() | (st.just(timedelta(0)) if target is None else durations)),
        work_timeout=draw(st.none() | durations),
        policy=draw(policies),
        metadata=draw(st.none() | st.just('{"a": 1}')),
        payload=draw(st.none() | contents),
    )


members = st.builds(Membership, job_id=st.uuids(), name=names, waiting_on=st.integers(0, 3))
failures = st.builds(
    Failure,
    error=st.text(max_size=5),
    retryable=st.booleans(),
    retry_in=st.none() | durations,
    chance=st.floats(0, 1, exclude_max=True),
)
changes = st.builds(
    Change,
    new_state=st.none() | states,
    auto_target_state=st.none() | states,
    timeout=st.none() | durations,
    priority=priorities,
    payload=st.none() | contents,
)


def claims(queue: str, state: str) -> st.SearchStrategy[Claim]:
    """Draw a claim of one queue and state."""
    return st.builds(
        Claim,
        queues=st.just((queue,)),
        current_state=st.just(state),
        override_current_state=st.none() | states,
        override_auto_target_state=st.none() | states,
        override_timeout=st.none() | durations,
        worker_id=st.just("") | names,
    )
