"""The answer about many submitted tasks."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.answers.tasks import Task, view
from corndog.api.fields import UNGIVEN, Ungiven
from corndog.api.media import Media
from corndog.api.problems import Problem
from corndog.service.submits import Submitted


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


def view_batch(media: Media, submitted: Submitted, refused: Mapping[int, Problem]) -> BatchSubmitted:
    """Show what became of a batch: the submitted tasks stand where nothing was refused."""
    made = iter(zip(submitted.ids, submitted.tasks, strict=True))
    results: list[Item] = []
    for place in range(len(submitted.ids) + len(refused)):
        if problem := refused.get(place):
            results.append(Item(status=problem.status, problem=problem))
        else:
            task_id, task = next(made)
            shown = None if task is None else view(media, task)
            results.append(Item(status=HTTPStatus.CREATED, id=task_id, task=shown))
    return BatchSubmitted(results, len(refused), submitted.replayed)
