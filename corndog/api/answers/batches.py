"""Answers about many tasks at once."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.answers.tasks import Claimed, Task, view
from corndog.api.fields import UNGIVEN, Ungiven
from corndog.api.media import Media
from corndog.api.problems import Problem, problem_of_any
from corndog.service.submits import Submitted
from corndog.service.writes import Written


class Item(msgspec.Struct, kw_only=True):
    """What became of one item: 201 with the task, or the status of its refusal with the problem."""

    status: int
    id: UUID | Ungiven = UNGIVEN
    task: Annotated[Task | None, Meta(description="The task as it is now; null if it is purged.")] | Ungiven = UNGIVEN
    problem: Annotated[Problem, Meta(description="Its fields are those of the item.")] | Ungiven = UNGIVEN


class BatchSubmitted(msgspec.Struct):
    """What became of each item, in their order, and how many were refused.

    `replayed` if an earlier request under the same key had submitted them already.
    """

    results: list[Item]
    failed: int
    replayed: bool


class Ended(msgspec.Struct, kw_only=True):
    """What became of one item: 200, or the status of its refusal with the problem."""

    status: int
    id: UUID | Ungiven = UNGIVEN
    task: Annotated[Task, Meta(description="The task as it is now.")] | Ungiven = UNGIVEN
    replayed: bool | Ungiven = UNGIVEN
    problem: Annotated[Problem, Meta(description="Its fields are those of the item.")] | Ungiven = UNGIVEN


class CompletedItem(Ended, kw_only=True):
    """What became of one item: 200 and what was submitted with it, or the status of its refusal with the problem."""

    next_tasks: list[UUID] | Ungiven = UNGIVEN


class ManyCompleted(msgspec.Struct, kw_only=True):
    """What became of each item, in their order, how many were refused, and what was claimed then."""

    results: list[CompletedItem]
    failed: int
    claimed: Annotated[Claimed, Meta(description="If a claim was asked for.")] | Ungiven = UNGIVEN


class ManyFailed(msgspec.Struct):
    """What became of each item, in their order, and how many were refused."""

    results: list[Ended]
    failed: int


def view_completed(media: Media, done: Written | Exception, *, minimal: bool) -> CompletedItem:
    """Show what became of one completion."""
    if isinstance(done, Exception):
        problem = problem_of_any(done)
        return CompletedItem(status=problem.status, problem=problem)
    return CompletedItem(
        status=HTTPStatus.OK,
        id=done.task.id,
        task=UNGIVEN if minimal else view(media, done.task),
        next_tasks=list(done.next_task_ids),
        replayed=done.replayed,
    )


def view_failed(media: Media, done: Written | Exception, *, minimal: bool) -> Ended:
    """Show what became of one failed try."""
    if isinstance(done, Exception):
        problem = problem_of_any(done)
        return Ended(status=problem.status, problem=problem)
    return Ended(
        status=HTTPStatus.OK,
        id=done.task.id,
        task=UNGIVEN if minimal else view(media, done.task),
        replayed=done.replayed,
    )


def view_batch(media: Media, submitted: Submitted, refused: Mapping[int, Problem], *, minimal: bool) -> BatchSubmitted:
    """Show what became of a batch: the submitted tasks stand where nothing was refused."""
    made = iter(zip(submitted.ids, submitted.tasks, strict=True))
    results: list[Item] = []
    for place in range(len(submitted.ids) + len(refused)):
        if problem := refused.get(place):
            results.append(Item(status=problem.status, problem=problem))
        else:
            task_id, task = next(made)
            shown: Task | Ungiven | None = UNGIVEN
            if not minimal:
                shown = None if task is None else view(media, task)
            results.append(Item(status=HTTPStatus.CREATED, id=task_id, task=shown))
    return BatchSubmitted(results, len(refused), submitted.replayed)
