"""Every way in which corndog refuses a call.

    CorndogError
    ├── Invalid            malformed or out of range; names the field and the rule
    │   └── TooLarge       a size beyond its limit
    ├── NotFound           no such task or job, or it has no such content
    ├── Conflict           the task or job is not what the caller takes it for; says what is there
    └── Unavailable        the database can't answer now; nothing acknowledged is lost, try again

`code` is stable and meant for programs; the message is meant for people.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from corndog.domain.task import Task


class Code(StrEnum):
    """The stable codes of all refusals."""

    INVALID = "invalid"
    MALFORMED = "malformed_body"
    UNKNOWN_FIELD = "unknown_field"
    TOO_LARGE = "too_large"
    CURSOR = "invalid_cursor"
    INVALID_JOB = "invalid_job"

    TASK_NOT_FOUND = "task_not_found"
    JOB_NOT_FOUND = "job_not_found"
    PAYLOAD_NOT_FOUND = "payload_not_found"
    RESULT_NOT_FOUND = "result_not_found"

    HELD = "held"
    STALE_DELIVERY = "stale_delivery"
    STATE_MISMATCH = "state_mismatch"
    QUEUE_MISMATCH = "queue_mismatch"
    BLOCKED = "blocked"
    ENDED = "ended"
    PARENT_ENDED = "parent_ended"
    OTHER_REQUEST = "other_request"
    KEY_IN_USE = "key_in_use"

    UNAVAILABLE = "unavailable"


class CorndogError(Exception):
    """A call was refused, and nothing has changed; `field` is the part of it that was, if it is one part."""

    def __init__(self, code: Code, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.field = field


class Fault(NamedTuple):
    """One of several things that are wrong with a request: where, and what."""

    field: str
    detail: str


class Invalid(CorndogError):
    """The request is malformed or a value is out of range, whatever the task's state; `faults` tells several."""

    def __init__(
        self, message: str, *, field: str | None = None, code: Code = Code.INVALID, faults: Sequence[Fault] = ()
    ) -> None:
        super().__init__(code, message, field=field)
        self.faults = faults


class TooLarge(Invalid):
    """A value is larger than its limit in bytes."""

    def __init__(self, field: str, size: int, limit: int) -> None:
        super().__init__(f"{size} bytes, at most {limit} are allowed", field=field, code=Code.TOO_LARGE)


class NotFound(CorndogError):
    """There is no such task, or the task has no such content."""


class Conflict(CorndogError):
    """What is there is not as the caller takes it to be; if it is a task, `task` is what is there."""

    def __init__(self, code: Code, message: str, task: "Task | None" = None) -> None:
        super().__init__(code, message)
        self.task = task


class Unavailable(CorndogError):
    """The database did not answer in time, or kept refusing; `retry_after` is in seconds."""

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(Code.UNAVAILABLE, message)
        self.retry_after = retry_after
