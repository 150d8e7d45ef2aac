"""What is asked of a listing, and what it gives."""

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

import msgspec

from corndog.domain.task import Content, Phase, Task

EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
FIRST_ID = UUID(int=0)
LAST_ID = UUID(int=2**128 - 1)

DEPENDENCIES_MAX = 16 * 1024 * 1024
"""How many bytes of results one answer carries of what its tasks depend on."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks a listing shows; None shows all. Times bound `submit_time`, the later one exclusively."""

    archived: bool = False
    queue: str | None = None
    current_state: str | None = None
    phase: Phase | None = None
    kind: str | None = None
    worker_id: str | None = None
    job_id: UUID | None = None
    submitted_after: datetime = EARLIEST
    submitted_before: datetime = LATEST


class Place(msgspec.Struct, frozen=True, array_like=True):
    """The last task of a page: the next one begins after it."""

    submit_time: datetime = EARLIEST
    id: UUID = FIRST_ID


class Include(msgspec.Struct, frozen=True):
    """What is read besides the record."""

    payload: bool = False
    result: bool = False
    dependencies: bool = False


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """How a task that another depends on ended; `is_omitted` where it left a result that was too large to be read."""

    phase: Phase
    last_error: str | None
    result: Content | None
    is_omitted: bool


class Entry(msgspec.Struct, frozen=True):
    """A task with what was asked for besides; None where it was not, or the task has none."""

    task: Task
    payload: Content | None = None
    result: Content | None = None
    dependencies: Mapping[str, Dependency] | None = None
