"""Bodies that end tasks, or one of their tries, and that revive them."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias
from uuid import UUID

from msgspec import Meta

from corndog.api.combinations import NOTHING_TO_MATCH, Forbidden, alone, both
from corndog.api.contents import read_content
from corndog.api.fields import (
    UNGIVEN,
    AnyJson,
    Base64,
    Delivery,
    MediaType,
    Name,
    Seconds,
    Time,
    Ungiven,
)
from corndog.api.media import Media
from corndog.api.requests.base import Body, at_most
from corndog.api.requests.submits import Submit
from corndog.api.requests.tasks import MatchFields, Next
from corndog.domain.errors import Invalid
from corndog.domain.limits import NO_NUL_PATTERN, Terms, check_name, duration, failure_text, instant
from corndog.domain.listing import EARLIEST, LATEST, Filter
from corndog.domain.task import (
    Content,
    Failure,
    NewTask,
    Phase,
    RetryPolicy,
)

_DEFAULTS = RetryPolicy()


class Complete(MatchFields):
    """The end of a task's work, and what comes next."""

    FORBIDDEN: ClassVar[Forbidden] = (
        NOTHING_TO_MATCH,
        both("result", "result_base64"),
        alone("result_content_type", "result", "result_base64"),
        both("next_task", "next_tasks", next_task={"type": "object"}, next_tasks={"type": "array"}),
    )

    result: AnyJson | Ungiven = UNGIVEN
    result_base64: Base64 | Ungiven = UNGIVEN
    result_content_type: MediaType | None = None
    next_task: Annotated[Submit | None, Meta(description="Submitted in the same transaction; it inherits nothing.")] = (
        None
    )
    next_tasks: Annotated[list[Submit] | None, Meta(description="The same, for several tasks.")] = None

    def to_result(self, media: Media, terms: Terms) -> Content | None:
        """Give the result, if there is one."""
        return read_content(
            media,
            terms,
            self.result,
            self.result_base64,
            self.result_content_type,
            "result",
            "result_content_type",
        )

    def to_next(self, media: Media, terms: Terms) -> Sequence[NewTask]:
        """Give the next tasks, in order."""
        if self.next_task is not None and self.next_tasks is not None:
            raise Invalid("give either `next_task` or `next_tasks`, not both", field="next_tasks")
        if self.next_task is not None:
            return [self.next_task.to_new(media, terms, at="next_task.")]
        wanted = self.next_tasks or []
        at_most(len(wanted), terms.items, "next_tasks")
        return [new.to_new(media, terms, at=f"next_tasks[{place}].") for place, new in enumerate(wanted)]


NextClaim: TypeAlias = Annotated[
    Next | None, Meta(description="What to claim next, as in a claim; it is made once the completion is committed.")
]


class CompleteAndClaim(Complete):
    """The end of a task's work, what comes next, and what its worker does next."""

    claim: NextClaim = None


class Cancel(MatchFields):
    """Ends a task, whoever holds it."""


class Fail(MatchFields, kw_only=True):
    """A try of a held task that failed."""

    FORBIDDEN: ClassVar[Forbidden] = (
        both("retry_in", "retryable", retry_in={"type": "number"}, retryable={"const": False}),
    )

    delivery: Annotated[Delivery, Meta(description="The hold's number.")]
    error: Annotated[
        str,
        Meta(description="What went wrong; beyond 64 KiB it is cut.", extra_json_schema={"pattern": NO_NUL_PATTERN}),
    ] = ""
    retryable: Annotated[bool, Meta(description="False: the task ends as failed, whatever is left of its budget.")] = (
        True
    )
    retry_in: Annotated[Seconds | None, Meta(description="The pause before the next try, instead of the backoff.")] = (
        None
    )

    def to_failure(self) -> Failure:
        """Give the failure."""
        if self.retry_in is not None and not self.retryable:
            raise Invalid("a failure that is not `retryable` has no retry", field="retry_in")
        return Failure(
            error=failure_text(self.error, "error"),
            retryable=self.retryable,
            retry_in=duration(self.retry_in, "retry_in"),
        )


class Revive(Body):
    """Makes an ended task live again."""


class ReviveFilter(Body):
    """Which ended tasks are revived."""

    phase: Annotated[Literal["failed", "canceled"], Meta(description="How they ended.")] = "failed"
    queue: Name | None = None
    kind: Name | None = None
    job_id: UUID | None = None
    submitted_after: Annotated[Time | None, Meta(description="From this time on.")] = None
    submitted_before: Annotated[Time | None, Meta(description="Before this time.")] = None

    def to_filter(self) -> Filter:
        """Give the filter."""
        check_name(self.queue, "filter.queue")
        check_name(self.kind, "filter.kind")
        return Filter(
            archived=True,
            phase=Phase(self.phase),
            queue=self.queue,
            kind=self.kind,
            job_id=self.job_id,
            submitted_after=instant(self.submitted_after, "filter.submitted_after") or EARLIEST,
            submitted_before=instant(self.submitted_before, "filter.submitted_before") or LATEST,
        )


class ReviveMany(Body):
    """Makes many ended tasks live again: those named, or those that a filter finds."""

    FORBIDDEN: ClassVar[Forbidden] = (
        both("ids", "filter", ids={"type": "array"}, filter={"type": "object"}),
        {"properties": {"ids": {"type": "null"}, "filter": {"type": "null"}}},
    )

    ids: Annotated[list[UUID] | None, Meta(description="The tasks.")] = None
    filter: Annotated[ReviveFilter | None, Meta(description="Instead of `ids`: by submit time, `limit` at most.")] = (
        None
    )
    limit: Annotated[int, Meta(ge=1, description="Most tasks that a filter finds in one call.")] = 100
    dry_run: Annotated[bool, Meta(description="Only tell which tasks these are.")] = False

    def to_ids(self, terms: Terms) -> list[UUID] | None:
        """Give the tasks, if they are named."""
        if (self.ids is None) == (self.filter is None):
            raise Invalid("give either `ids` or `filter`", field="filter" if self.ids else "ids")
        at_most(len(self.ids or ()), terms.items, "ids")
        at_most(self.limit, terms.items, "limit")
        return None if self.ids is None else list(dict.fromkeys(self.ids))
