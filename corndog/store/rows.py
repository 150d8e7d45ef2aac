"""Rows of the database and the records they stand for."""

from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import msgspec

from corndog.domain.listing import Entry
from corndog.domain.task import CanceledBy, Candidate, Content, Jitter, Outcome, Phase, Run, Task, Window

RECORD = Task.__struct_fields__
"""The columns of a task in the order of `sql/fragments/record.sql`, where `priority` is stored as `rank`."""

_PHASE = RECORD.index("phase")
_PRIORITY = RECORD.index("priority")
_JITTER = RECORD.index("jitter")
_CANCELED_BY = RECORD.index("canceled_by")
_WIDTH = len(RECORD)
_PHASES = {phase.value: phase for phase in Phase}
_JITTERS = {jitter.value: jitter for jitter in Jitter}

Row: TypeAlias = asyncpg.Record


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A task wherever it is, with all that decides how a refused or repeated write is answered."""

    task: Task
    write_token: UUID | None
    end_request: bytes | None
    next_task_ids: tuple[UUID, ...]
    run_outcome: Outcome | None
    run_request: bytes | None


def task(row: Row) -> Task:
    """Read a task from the first columns of a row."""
    values = list(row[:_WIDTH])
    values[_PRIORITY] = -values[_PRIORITY]
    values[_PHASE] = _PHASES[values[_PHASE]]
    values[_JITTER] = _JITTERS[values[_JITTER]]
    if values[_CANCELED_BY] is not None:
        values[_CANCELED_BY] = CanceledBy(values[_CANCELED_BY])
    return Task(*values)


def candidate(row: Row) -> Candidate:
    """Read a ready task's place: queue, state, rank, submit time, id."""
    queue, state, rank, submit_time, task_id = row
    return Candidate(Window(queue, state), (rank, submit_time, task_id))


def content(columns: Sequence[Any]) -> Content | None:
    """Read a payload or result from its three columns."""
    data, media_type, is_json = columns
    return None if data is None else Content(data, media_type, is_json)


def entry(row: Row) -> Entry:
    """Read a task followed by its payload and, if selected, its result."""
    extra = row[_WIDTH:]
    return Entry(task(row), content(extra[:3]), content(extra[3:6]) if len(extra) >= 6 else None)  # noqa: PLR2004


def run(row: Row) -> Run:
    """Read a row of `runs`."""
    outcome = row["outcome"]
    return Run(**dict(row) | {"outcome": None if outcome is None else Outcome(outcome)})


def found(row: Row) -> Found:
    """Read a row of `look_up`."""
    write_token, end_request, next_task_ids, run_outcome, run_request, *_ = row[_WIDTH:]
    return Found(
        task=task(row),
        write_token=write_token,
        end_request=end_request,
        next_task_ids=tuple(next_task_ids or ()),
        run_outcome=None if run_outcome is None else Outcome(run_outcome),
        run_request=run_request,
    )
