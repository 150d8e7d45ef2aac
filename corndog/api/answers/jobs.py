"""Answers about jobs."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.answers.tasks import Task, fields_of
from corndog.api.answers.times import text
from corndog.api.fields import JsonObject, Time
from corndog.api.media import Media
from corndog.domain import jobs as domain
from corndog.domain.jobs import Edge, JobStatus, OnParentFailure
from corndog.service.jobs import Changed, Graph, SubmittedJob


class Job(msgspec.Struct, kw_only=True):
    """A job as it is."""

    id: UUID
    name: str | None
    status: Annotated[
        JobStatus,
        Meta(description="By its tasks: `pending` if nothing was claimed yet; final only when all of them have ended."),
    ]
    submit_time: Time
    update_time: Time
    end_time: Annotated[Time | None, Meta(description="Null while any of its tasks lives.")]
    task_count: int
    metadata: JsonObject | None


class JobSubmitted(msgspec.Struct, kw_only=True):
    """The job as it is now, and the ids of its tasks by their names.

    `replayed` if an earlier request under the same key had submitted it already.
    """

    id: UUID
    job: Annotated[Job | None, Meta(description="Null if it is purged by now.")]
    tasks: dict[str, UUID]
    replayed: bool


class OneJob(msgspec.Struct):
    """One job; `replayed` if there was nothing left to do."""

    job: Job
    replayed: bool


class JobPage(msgspec.Struct):
    """Jobs, the newest first, and the cursor of the next page; null on the last."""

    jobs: list[Job]
    next_cursor: str | None


class Depends(msgspec.Struct):
    """A dependency of a task of the job."""

    name: Annotated[str, Meta(description="The task that it depends on.")]
    done: Annotated[bool, Meta(description="It holds the task up no longer.")]


class TaskOfJob(Task, kw_only=True):
    """A task of a job, with what it depends on."""

    depends_on: list[Depends]
    on_parent_failure: OnParentFailure


class WholeJob(msgspec.Struct, kw_only=True):
    """A job with all its tasks, parents before their children, and how many there are in each phase."""

    job: Job
    phase_counts: dict[str, int]
    tasks: list[TaskOfJob]


def view_job(media: Media, job: domain.Job) -> Job:
    """Show a job in an encoding."""
    return Job(
        id=job.id,
        name=job.name,
        status=job.status,
        submit_time=text(job.submit_time),
        update_time=text(job.update_time),
        end_time=None if job.end_time is None else text(job.end_time),
        task_count=job.task_count,
        metadata=None if job.metadata is None else media.write_object(job.metadata),
    )


def view_submitted_job(media: Media, submitted: SubmittedJob) -> JobSubmitted:
    """Answer the submit of a job."""
    return JobSubmitted(
        id=submitted.id,
        job=None if submitted.job is None else view_job(media, submitted.job),
        tasks=dict(submitted.task_ids),
        replayed=submitted.replayed,
    )


def view_changed(media: Media, changed: Changed) -> OneJob:
    """Answer a write of a whole job."""
    return OneJob(view_job(media, changed.job), changed.replayed)


def view_graph(media: Media, graph: Graph, *, with_tasks: bool) -> WholeJob:
    """Show a job with its tasks."""
    counts: defaultdict[str, int] = defaultdict(int)
    for task in graph.tasks:
        counts[task.phase.value] += 1
    return WholeJob(
        job=view_job(media, graph.job),
        phase_counts=counts,
        tasks=_view_tasks(media, graph) if with_tasks else [],
    )


def _view_tasks(media: Media, graph: Graph) -> list[TaskOfJob]:
    names = {task.id: task.name or "" for task in graph.tasks}
    edges: defaultdict[UUID, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        edges[edge.child_id].append(edge)
    return [
        TaskOfJob(
            **fields_of(media, task),
            depends_on=[Depends(names[edge.parent_id], edge.done) for edge in edges[task.id]],
            on_parent_failure=_on_parent_failure(edges[task.id]),
        )
        for task in graph.tasks
    ]


def _on_parent_failure(edges: Iterable[Edge]) -> OnParentFailure:
    return OnParentFailure.RUN if any(edge.run_on_failure for edge in edges) else OnParentFailure.CANCEL
