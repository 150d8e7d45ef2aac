"""What clients get, made of what the use cases give."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.fields import UNGIVEN, AnyJson, Base64, JsonObject, Time, Ungiven
from corndog.api.media import Media
from corndog.domain import task as domain
from corndog.domain.listing import Entry
from corndog.domain.task import Content, Jitter, Phase, Standing
from corndog.service.tasks import Written


class Task(msgspec.Struct, kw_only=True):
    """A task as it is; its payload and result only where they were asked for and there are any."""

    id: UUID
    queue: str
    kind: str | None
    current_state: str
    auto_target_state: str
    phase: Phase
    home_state: Annotated[str, Meta(description="Where release, unparking and revival lead back to.")]
    home_target: str
    priority: int
    submit_time: Time
    update_time: Time
    timeout: Annotated[float | None, Meta(description="Length of the present clock, in seconds; null: none.")]
    work_timeout: Annotated[
        float | None, Meta(description="Clock of each claim, in seconds; null: the server's default, 0: none.")
    ]
    due_time: Annotated[Time | None, Meta(description="End of the clock, or of the parking; null: none.")]
    delivery: Annotated[int, Meta(description="Fencing number: how often it was handed out.")]
    held_by: str | None
    claim_time: Time | None
    attempt: Annotated[int, Meta(description="Failed tries.")]
    max_attempts: int | None
    backoff: float
    backoff_max: float
    backoff_multiplier: float
    jitter: Jitter
    lost: Annotated[int, Meta(description="Held deliveries that timed out.")]
    max_lost: int | None
    job_id: UUID | None
    name: str | None
    waiting_on: int
    last_error: str | None
    metadata: JsonObject | None
    payload: AnyJson | Ungiven = UNGIVEN
    payload_base64: Base64 | Ungiven = UNGIVEN
    content_type: str | Ungiven = UNGIVEN
    result: AnyJson | Ungiven = UNGIVEN
    result_base64: Base64 | Ungiven = UNGIVEN
    result_content_type: str | Ungiven = UNGIVEN


class One(msgspec.Struct):
    """One task."""

    task: Task


class Many(msgspec.Struct):
    """Tasks, in claim order."""

    tasks: list[Task]


class Page(msgspec.Struct):
    """Tasks by submit time and id, and the cursor of the next page; null on the last."""

    tasks: list[Task]
    next_cursor: str | None


class Changed(msgspec.Struct):
    """The task as it is now; `replayed` if an earlier request had done this already."""

    task: Task
    replayed: bool


class Completed(msgspec.Struct):
    """The archived task, and the ids of the tasks that were submitted with its completion."""

    task: Task
    next_tasks: list[UUID]
    replayed: bool


class Beat(msgspec.Struct):
    """How one delivery stands."""

    id: UUID
    delivery: int
    status: Annotated[
        Standing,
        Meta(description="`held`: go on. `canceled`: the task was canceled. `lost`: others hold or have ended it."),
    ]
    lease_expires: Annotated[
        Time | None, Meta(description="Until when it is held, by the database's commit; null: not held, or no clock.")
    ]


class Beats(msgspec.Struct):
    """How each delivery stands, in the order of the request."""

    deliveries: list[Beat]


class CleanedUp(msgspec.Struct):
    """How many clocks were ended."""

    timed_out: int


class Queues(msgspec.Struct):
    """The queues that have live tasks."""

    queues: list[str]
    total_task_count: int


class QueueCounts(msgspec.Struct):
    """How many live tasks each queue has."""

    queue_counts: dict[str, int]
    total_task_count: int


class StateCounts(msgspec.Struct):
    """How many live tasks a queue has in each state."""

    queue: str
    count: int
    state_counts: dict[str, int]


class QueueAndStateCounts(msgspec.Struct):
    """How many live tasks each queue has in each state."""

    queue_and_state_counts: dict[str, StateCounts]


class Health(msgspec.Struct):
    """Whether the server takes work, and what it has to say about its parts."""

    status: Annotated[str, Meta(description="`ok`, `degraded` (works, but slower), or `unavailable`.")]
    checks: dict[str, str]
    warnings: list[str]


class Alive(msgspec.Struct):
    """The process answers."""

    status: str = "ok"


def view(media: Media, task: domain.Task, payload: Content | None = None, result: Content | None = None) -> Task:
    """Show a task in an encoding."""
    answer = Task(
        id=task.id,
        queue=task.queue,
        kind=task.kind,
        current_state=task.current_state,
        auto_target_state=task.auto_target_state,
        phase=task.phase,
        home_state=task.home_state,
        home_target=task.home_target,
        priority=task.priority,
        submit_time=_text(task.submit_time),
        update_time=_text(task.update_time),
        timeout=_seconds(task.timeout),
        work_timeout=_seconds(task.work_timeout),
        due_time=None if task.due_time is None else _text(task.due_time),
        delivery=task.delivery,
        held_by=task.held_by,
        claim_time=None if task.claim_time is None else _text(task.claim_time),
        attempt=task.attempt,
        max_attempts=task.max_attempts,
        backoff=task.backoff.total_seconds(),
        backoff_max=task.backoff_max.total_seconds(),
        backoff_multiplier=task.backoff_multiplier,
        jitter=task.jitter,
        lost=task.lost,
        max_lost=task.max_lost,
        job_id=task.job_id,
        name=task.name,
        waiting_on=task.waiting_on,
        last_error=task.last_error,
        metadata=None if task.metadata is None else media.write_object(task.metadata),
    )
    if payload is not None:
        answer.content_type = payload.media_type
        if payload.is_json:
            answer.payload = media.write_json(payload.data)
        else:
            answer.payload_base64 = payload.data
    if result is not None:
        answer.result_content_type = result.media_type
        if result.is_json:
            answer.result = media.write_json(result.data)
        else:
            answer.result_base64 = result.data
    return answer


def view_entry(media: Media, entry: Entry) -> Task:
    """Show a task with what was read besides."""
    return view(media, entry.task, entry.payload, entry.result)


def changed(media: Media, written: Written) -> Changed:
    """Answer a write."""
    return Changed(task=view(media, written.task), replayed=written.replayed)


def beats(answered: Iterable[domain.Beat]) -> Beats:
    """Answer a heartbeat."""
    return Beats(
        [
            Beat(
                beat.id, beat.delivery, beat.standing, None if beat.lease_expires is None else _text(beat.lease_expires)
            )
            for beat in answered
        ]
    )


def state_counts(queue: str, counts: Iterable[tuple[str, str, int]]) -> StateCounts:
    """Sum up the counts of one queue."""
    states = {state: count for _, state, count in counts}
    return StateCounts(queue=queue, count=sum(states.values()), state_counts=states)


def by_queue(counts: Sequence[tuple[str, str, int]]) -> dict[str, StateCounts]:
    """Sum up the counts of every queue; they come sorted by queue."""
    groups = groupby(counts, key=itemgetter(0))
    return {queue: state_counts(queue, group) for queue, group in groups}


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _text(time: datetime) -> str:
    """Write a time of the database, which is in UTC. MessagePack has a type for times; requests take text in both."""
    return f"{time.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
