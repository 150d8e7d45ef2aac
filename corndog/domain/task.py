"""The records: a task, what is asked of it, and what one of its deliveries left behind.

The life of a task, seen through its phase:

        submit ───────────────► ready ◄──────── time out, release,
          │                     │   ▲           update to a new state
          │ delay, run_at,      │   │
          │ dependencies        │   │
          ▼                     │ claim
        parked ──── unpark ─────┘   │
          ▲                     ▼   │
          └── fail, release ── held ┘
              with delay        │
                                ▼
        revive ◄──── completed │ failed │ canceled      (the archive)

A task has two state strings: `current_state`, and `auto_target_state`, into which a claim or a timeout swaps it.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec

DEFAULT_QUEUE = "default"
DEFAULT_STATE = "submitted"
WORKING_SUFFIX = "-working"
SCHEDULED_SUFFIX = "-scheduled"
RETRYING_SUFFIX = "-retrying"
BLOCKED_SUFFIX = "-blocked"
DEFAULT_MAX_ATTEMPTS = 3


class Phase(StrEnum):
    """What can happen to a task next; the last three are the archive's."""

    READY = "ready"
    HELD = "held"
    PARKED = "parked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


ARCHIVED = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELED})

Order: TypeAlias = tuple[int, datetime, UUID]
"""A place among ready tasks: rank (the negated priority), submit time, id; the least comes first."""


class Window(NamedTuple):
    """The ready tasks of one queue in one state: what a claim looks at."""

    queue: str
    state: str


class Candidate(NamedTuple):
    """A task that may be ready: in which window, and at which place."""

    window: Window
    order: Order

    @property
    def id(self) -> UUID:
        """The task's id."""
        return self.order[2]

    @property
    def rank(self) -> int:
        """The task's rank at that place."""
        return self.order[0]


class Outcome(StrEnum):
    """How one delivery, or a whole task, came to its end."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD = "dead"
    RELEASED = "released"
    MOVED = "moved"
    CANCELED = "canceled"


class CanceledBy(StrEnum):
    """What canceled a task: a request of its own, the end of a task that it depends on, or its whole job's."""

    REQUEST = "request"
    PARENT = "parent"
    JOB = "job"


class Jitter(StrEnum):
    """How a retry's backoff is spread: evenly from zero to its full length, or not at all."""

    FULL = "full"
    NONE = "none"


class Content(msgspec.Struct, frozen=True):
    """A payload or a result: opaque bytes, their media type, and whether they were written as JSON."""

    data: bytes
    media_type: str
    is_json: bool


class Task(msgspec.Struct, frozen=True):
    """A task as the database has it, live or archived.

    Times are the database's, in UTC, to the microsecond. `timeout` is the length of the present clock and
    `due_time` its end (or, of a parked task, the time of its release); None is none. A `work_timeout` of None is
    the server's default, and of zero none. `delivery` is the fencing number: how often the task was handed out.
    `waiting_on` is how many of its dependencies are open; when none is, `start_delay` begins or `start_at` applies.
    """

    id: UUID
    queue: str
    kind: str | None
    current_state: str
    auto_target_state: str
    phase: Phase
    home_state: str
    home_target: str
    priority: int
    submit_time: datetime
    update_time: datetime
    timeout: timedelta | None
    work_timeout: timedelta | None
    due_time: datetime | None
    delivery: int
    held_by: str | None
    claim_time: datetime | None
    attempt: int
    max_attempts: int | None
    backoff: timedelta
    backoff_max: timedelta
    backoff_multiplier: float
    jitter: Jitter
    lost: int
    max_lost: int | None
    job_id: UUID | None
    name: str | None
    waiting_on: int
    last_error: str | None
    metadata: str | None
    start_delay: timedelta | None = None
    start_at: datetime | None = None
    canceled_by: CanceledBy | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for other tasks rather than for a time."""
        return self.phase is Phase.PARKED and self.due_time is None

    @property
    def order(self) -> Order:
        """Its place among the ready tasks: highest priority, then oldest."""
        return (-self.priority, self.submit_time, self.id)

    @property
    def window(self) -> Window:
        """Where it is claimed from, if it is ready."""
        return Window(self.queue, self.current_state)

    @property
    def candidate(self) -> Candidate:
        """Itself, as a ready task to be claimed."""
        return Candidate(self.window, self.order)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often a task may fail or be lost, and how long it then waits."""

    max_attempts: int | None = DEFAULT_MAX_ATTEMPTS
    backoff: timedelta = timedelta(seconds=5)
    backoff_max: timedelta = timedelta(hours=1)
    backoff_multiplier: float = 2.0
    jitter: Jitter = Jitter.FULL
    max_lost: int | None = None


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a submitter asks for. `metadata` is the text of a JSON object."""

    queue: str = DEFAULT_QUEUE
    kind: str | None = None
    current_state: str = DEFAULT_STATE
    auto_target_state: str | None = None
    priority: int = 0
    delay: timedelta | None = None
    run_at: datetime | None = None
    timeout: timedelta | None = None
    work_timeout: timedelta | None = None
    policy: RetryPolicy = RetryPolicy()
    metadata: str | None = None
    payload: Content | None = None

    @property
    def window(self) -> Window:
        """Where it is claimed from once it is ready."""
        return Window(self.queue, self.current_state)


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """A task's place in a job: its name there, and how many other tasks of the job it waits for."""

    job_id: UUID
    name: str
    waiting_on: int


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller takes the task to be; what is given must agree."""

    queue: str | None = None
    current_state: str | None = None
    delivery: int | None = None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A pull of up to `count` tasks in one state from one or several queues."""

    queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    current_state: str = DEFAULT_STATE
    override_current_state: str | None = None
    override_auto_target_state: str | None = None
    override_timeout: timedelta | None = None
    count: int = 1
    worker_id: str = ""

    @property
    def windows(self) -> tuple[Window, ...]:
        """Where it looks for tasks."""
        return tuple(Window(queue, self.current_state) for queue in self.queues)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An update: to a new state, or (with none, or the present one) a progress write."""

    new_state: str | None = None
    auto_target_state: str | None = None
    timeout: timedelta | None = None
    priority: int = 0
    payload: Content | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of a try that failed.

    `retry_in` replaces the backoff this once. `chance`, from 0 up to but not including 1, places the retry within its
    jitter.
    """

    error: str = ""
    retryable: bool = True
    retry_in: timedelta | None = None
    chance: float = 0.0


class Standing(StrEnum):
    """What a heartbeat hears of a delivery: it holds its task, or no longer, and then whether the task was canceled."""

    HELD = "held"
    CANCELED = "canceled"
    LOST = "lost"


class Hold(msgspec.Struct, frozen=True):
    """A delivery that a worker believes to hold its task."""

    id: UUID
    delivery: int


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one delivery's heartbeat; `lease_expires` is a committed deadline, None where there is none."""

    id: UUID
    delivery: int
    standing: Standing
    lease_expires: datetime | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery of a task, from its claim to its end; one that still holds the task has no end and no outcome.

    `request` is the hash of what ended it.
    """

    task_id: UUID
    delivery: int
    worker_id: str
    claim_time: datetime
    end_time: datetime | None
    outcome: Outcome | None
    request: bytes | None = None
    error: str | None = None
