"""Answers about tasks."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.answers.times import seconds, text
from corndog.api.fields import UNGIVEN, AnyJson, Base64, JsonObject, Time, Ungiven
from corndog.api.media import Media
from corndog.api.problems import Problem, problem_of
from corndog.domain import listing as domain_listing
from corndog.domain import task as domain
from corndog.domain.errors import CorndogError
from corndog.domain.listing import Entry
from corndog.domain.task import CanceledBy, Content, Jitter, Outcome, Phase
from corndog.service.writes import Written


class Dependency(msgspec.Struct, kw_only=True):
    """How a task that this one depends on ended, and what it left."""

    phase: Phase
    last_error: str | None
    result: AnyJson | Ungiven = UNGIVEN
    result_base64: Base64 | Ungiven = UNGIVEN
    result_content_type: str | Ungiven = UNGIVEN
    result_omitted: Annotated[
        bool, Meta(description="It is beyond what one answer carries of them: read it by itself.")
    ] = False


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
    canceled_by: Annotated[
        CanceledBy | None,
        Meta(description="What canceled it: a request, the end of a parent, or that of its job."),
    ]
    payload: AnyJson | Ungiven = UNGIVEN
    payload_base64: Base64 | Ungiven = UNGIVEN
    content_type: str | Ungiven = UNGIVEN
    result: AnyJson | Ungiven = UNGIVEN
    result_base64: Base64 | Ungiven = UNGIVEN
    result_content_type: str | Ungiven = UNGIVEN
    dependencies: (
        Annotated[dict[str, Dependency], Meta(description="What it depends on, by name; if asked for.")] | Ungiven
    ) = UNGIVEN


class One(msgspec.Struct):
    """One task."""

    task: Task


class Submitted(msgspec.Struct):
    """The task as it is now; `replayed` if an earlier request under the same key had submitted it already."""

    id: UUID
    task: Annotated[Task | None, Meta(description="Null if it is purged by now.")]
    replayed: bool


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


class Claimed(msgspec.Struct, kw_only=True):
    """What was claimed after a completion, in claim order; or why that could not be: the completion stands."""

    tasks: list[Task] | Ungiven = UNGIVEN
    error: Problem | Ungiven = UNGIVEN


class Completed(msgspec.Struct, kw_only=True):
    """The archived task, and the ids of the tasks that were submitted with its completion."""

    task: Task
    next_tasks: list[UUID]
    replayed: bool
    claimed: Annotated[Claimed, Meta(description="If a claim was asked for.")] | Ungiven = UNGIVEN


def fields_of(media: Media, task: domain.Task) -> dict[str, Any]:
    """Give the fields that every view of a task has."""
    return {
        "id": task.id,
        "queue": task.queue,
        "kind": task.kind,
        "current_state": task.current_state,
        "auto_target_state": task.auto_target_state,
        "phase": task.phase,
        "home_state": task.home_state,
        "home_target": task.home_target,
        "priority": task.priority,
        "submit_time": text(task.submit_time),
        "update_time": text(task.update_time),
        "timeout": seconds(task.timeout),
        "work_timeout": seconds(task.work_timeout),
        "due_time": None if task.due_time is None else text(task.due_time),
        "delivery": task.delivery,
        "held_by": task.held_by,
        "claim_time": None if task.claim_time is None else text(task.claim_time),
        "attempt": task.attempt,
        "max_attempts": task.max_attempts,
        "backoff": task.backoff.total_seconds(),
        "backoff_max": task.backoff_max.total_seconds(),
        "backoff_multiplier": task.backoff_multiplier,
        "jitter": task.jitter,
        "lost": task.lost,
        "max_lost": task.max_lost,
        "job_id": task.job_id,
        "name": task.name,
        "waiting_on": task.waiting_on,
        "last_error": task.last_error,
        "metadata": None if task.metadata is None else media.write_object(task.metadata),
        "canceled_by": task.canceled_by,
    }


def view(media: Media, task: domain.Task, payload: Content | None = None, result: Content | None = None) -> Task:
    """Show a task in an encoding."""
    answer = Task(**fields_of(media, task))
    if payload is not None:
        answer.content_type = payload.media_type
        if payload.is_json:
            answer.payload = media.write_json(payload.data)
        else:
            answer.payload_base64 = payload.data
    if result is not None:
        _show_result(media, answer, result)
    return answer


def view_entry(media: Media, entry: Entry) -> Task:
    """Show a task with what was read besides."""
    answer = view(media, entry.task, entry.payload, entry.result)
    if entry.dependencies is not None:
        answer.dependencies = {
            name: _view_dependency(media, dependency) for name, dependency in entry.dependencies.items()
        }
    return answer


def _view_dependency(media: Media, dependency: domain_listing.Dependency) -> Dependency:
    answer = Dependency(phase=dependency.phase, last_error=dependency.last_error)
    if dependency.result is not None:
        _show_result(media, answer, dependency.result)
    if dependency.is_omitted:
        answer.result_omitted = True
    return answer


def _show_result(media: Media, answer: Task | Dependency, result: Content) -> None:
    answer.result_content_type = result.media_type
    if result.is_json:
        answer.result = media.write_json(result.data)
    else:
        answer.result_base64 = result.data


def changed(media: Media, written: Written) -> Changed:
    """Answer a write."""
    return Changed(task=view(media, written.task), replayed=written.replayed)


class Run(msgspec.Struct):
    """One delivery of a task, from its claim to its end."""

    delivery: int
    worker_id: str
    claim_time: Time
    end_time: Annotated[Time | None, Meta(description="Null while it holds the task.")]
    outcome: Annotated[
        Outcome | None,
        Meta(description="How it ended: `dead` if it timed out, `moved` by an update. Null while it holds the task."),
    ]
    error: str | None


class Runs(msgspec.Struct):
    """The deliveries of a task, in their order."""

    runs: list[Run]


class Revived(msgspec.Struct, kw_only=True):
    """What became of one task: 200 and the task, or the status of its refusal and the problem."""

    id: UUID
    status: int
    task: Task | None
    problem: Problem | None


class ManyRevived(msgspec.Struct):
    """What became of each task, how many were refused, and whether the filter finds more."""

    results: list[Revived]
    failed: int
    more: bool


def view_runs(runs: Iterable[domain.Run]) -> Runs:
    """Show the history of a task."""
    return Runs(
        [
            Run(
                delivery=run.delivery,
                worker_id=run.worker_id,
                claim_time=text(run.claim_time),
                end_time=None if run.end_time is None else text(run.end_time),
                outcome=run.outcome,
                error=run.error,
            )
            for run in runs
        ]
    )


def view_revived(media: Media, task_id: UUID, revived: domain.Task | CorndogError) -> Revived:
    """Show what became of one task."""
    if isinstance(revived, CorndogError):
        problem = problem_of(revived)
        return Revived(id=task_id, status=problem.status, task=None, problem=problem)
    return Revived(id=task_id, status=HTTPStatus.OK, task=view(media, revived), problem=None)
