"""What the state machine asks for: few names and clocks, so that commands meet; and what it is told."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from corndog.domain.errors import Conflict, CorndogError
from corndog.domain.task import Change, Claim, Content, Failure, Jitter, NewTask, Phase, RetryPolicy
from tests.store.house import HOUR, MICROSECOND

FUTURE = datetime(2200, 1, 1, tzinfo=UTC)
PAST = datetime(2000, 1, 1, tzinfo=UTC)
UNKNOWN = UUID(int=1)

queues = st.sampled_from(["q", "q", "q", "Ü/ "])
states = st.sampled_from(["a", "a", "a", "b", "a-working", "a-scheduled", "completed"])
clocks = st.sampled_from([timedelta(0), MICROSECOND, HOUR, timedelta(days=3650)])
times = st.sampled_from([PAST, FUTURE])
workers = st.sampled_from(["", "w", "é"])
priorities = st.sampled_from([0, 0, 0, 1, -(2**31), 2**31 - 1])
payloads = st.none() | st.builds(
    Content, st.sampled_from([b"", b"\x00\xff", b'{"a": 1}']), st.sampled_from(["text/plain", "a/b"]), st.booleans()
)
_news = st.builds(
    NewTask,
    queue=queues,
    kind=st.none() | st.sampled_from(["k"]),
    current_state=states,
    auto_target_state=st.none() | states,
    priority=priorities,
    delay=st.none() | st.none() | clocks,
    run_at=st.none() | st.none() | times,
    timeout=st.none() | st.none() | clocks,
    work_timeout=st.none() | clocks,
    policy=st.builds(
        RetryPolicy,
        max_attempts=st.sampled_from([None, 1, 2, 3]),
        backoff=st.sampled_from([timedelta(0), HOUR, timedelta(days=3, seconds=1, microseconds=7)]),
        backoff_max=st.sampled_from([timedelta(days=100), timedelta(days=3650)]),
        backoff_multiplier=st.sampled_from([1.0, 1.1, 1000.0]) | st.floats(1, 1000),
        jitter=st.sampled_from(Jitter),
        max_lost=st.sampled_from([None, 1, 2]),
    ),
    metadata=st.none() | st.just('{"a": "\\u0000"}'),
    payload=payloads,
)
failures = st.builds(
    Failure,
    error=st.sampled_from(["", "it broke", "é\n"]),
    retryable=st.sampled_from([True, True, True, False]),
    retry_in=st.none() | st.none() | clocks,
    chance=st.sampled_from([0.0, 1e-300, 0.1, 0.5, 1 - 2**-53]),
)
claims = st.builds(
    Claim,
    queues=st.lists(queues, min_size=1, max_size=3, unique=True).map(tuple),
    current_state=states,
    override_current_state=st.none() | states,
    override_auto_target_state=st.none() | states,
    override_timeout=st.none() | clocks,
    count=st.sampled_from([1, 1, 2, 3, 100]),
    worker_id=workers,
)
_changes = st.builds(
    Change,
    new_state=st.none() | states,
    auto_target_state=st.none() | states,
    timeout=st.none() | clocks,
    priority=priorities,
    payload=payloads,
)


def _mend_new(new: NewTask) -> NewTask:
    """Make a submit keep the rules."""
    timeout = new.timeout if new.auto_target_state else None
    return msgspec.structs.replace(new, run_at=None if new.delay is not None else new.run_at, timeout=timeout)


def _mend_change(change: Change) -> Change:
    return msgspec.structs.replace(change, timeout=change.timeout if change.auto_target_state else None)


news = st.one_of(*[_news.map(_mend_new)] * 7, _news)
changes = st.one_of(*[_changes.map(_mend_change)] * 3, _changes)
phases = st.sampled_from([None, Phase.HELD, Phase.HELD, Phase.HELD, Phase.PARKED, Phase.READY, Phase.COMPLETED])
"""Which task is meant: the given one, or the nearest to it that is in this phase."""

rarely = st.sampled_from([False, False, False, True])

aims = st.fixed_dictionaries({
    "delivery": st.sampled_from(["right"] * 9 + ["none", "old", "new"]),
    "state": st.sampled_from(["needed"] * 9 + ["right", "right", "none", "home", "wrong"]),
    "queue": st.sampled_from(["none"] * 9 + ["right", "right", "wrong"]),
})  # fmt: skip


def told(error: CorndogError | None) -> object:
    """Give all that a refusal says."""
    if isinstance(error, Conflict):
        return type(error), error.code, str(error), error.task
    return None if error is None else (type(error), error.code, str(error), getattr(error, "field", None))
