"""What clients put into query strings of reads."""

from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.fields import AnyState, Name, Time, WorkerId
from corndog.domain.errors import Invalid
from corndog.domain.jobs import JobFilter, JobStatus
from corndog.domain.limits import SPAN_PATTERN, Terms, check_name, instant, span
from corndog.domain.listing import EARLIEST, LATEST, Filter, Include
from corndog.domain.task import Phase
from corndog.domain.workers import WorkerFilter

DEFAULT_PAGE = 100
CURSOR_MAX = 200
FLEET_PAGE_MAX = 100
"""Most workers of a page, since each comes with up to a hundred holds."""

NAME_CURSOR_MAX = 1400
"""Longest cursor that stands for a name, of which each character may take four bytes."""

Includes = Literal["payload", "result", "payload,result", "result,payload"]
AllIncludes = Annotated[
    str,
    Meta(pattern="^(payload|result|dependencies)(,(payload|result|dependencies))*$", max_length=100),
]


def page_limit(limit: int, terms: Terms) -> int:
    """Hold the length of a page to what this server allows."""
    if limit > terms.page:
        raise Invalid(f"at most {terms.page} are allowed", field="limit")
    return limit


class Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all queries: unknown parameters are refused."""


class BatchQuery(Query):
    """How a batch is written."""

    atomic: Annotated[bool, Meta(description="All of it, or nothing if one item is refused.")] = False


class GetQuery(Query):
    """What is read besides the record."""

    include: Annotated[
        AllIncludes | None,
        Meta(description="What to read besides the record: `payload`, `result`, `dependencies`, with commas between."),
    ] = None

    def to_include(self) -> Include:
        """Give what is to be included."""
        return _include(self.include)


class PageQuery(Query):
    """Which page of a listing is shown."""

    submitted_after: Annotated[Time | None, Meta(description="From this time on.")] = None
    submitted_before: Annotated[Time | None, Meta(description="Before this time.")] = None
    limit: Annotated[int, Meta(ge=1, description="Most entries of the page.")] = DEFAULT_PAGE
    cursor: Annotated[
        Annotated[str, Meta(max_length=CURSOR_MAX)] | None, Meta(description="`next_cursor` of the page before.")
    ] = None

    def to_limit(self, terms: Terms) -> int:
        """Give the number of entries of a page."""
        return page_limit(self.limit, terms)


class ListQuery(PageQuery):
    """Which tasks a listing shows."""

    include: Annotated[Includes | None, Meta(description="What to read besides the record.")] = None
    queue: Name | None = None
    current_state: AnyState | None = None
    phase: Phase | None = None
    kind: Name | None = None
    worker_id: Annotated[WorkerId | None, Meta(description="Who holds, or at the end held, the task.")] = None
    job_id: UUID | None = None
    archived: Annotated[bool, Meta(description="List ended tasks instead of live ones.")] = False

    def to_include(self) -> Include:
        """Give what is to be included."""
        return _include(self.include)

    def to_filter(self) -> Filter:
        """Give the filter."""
        for field in ("queue", "current_state", "kind", "worker_id"):
            check_name(getattr(self, field), field)
        return Filter(
            archived=self.archived,
            queue=self.queue,
            current_state=self.current_state,
            phase=self.phase,
            kind=self.kind,
            worker_id=self.worker_id,
            job_id=self.job_id,
            submitted_after=instant(self.submitted_after, "submitted_after") or EARLIEST,
            submitted_before=instant(self.submitted_before, "submitted_before") or LATEST,
        )


class JobQuery(Query):
    """What is read of a job."""

    tasks: Annotated[bool, Meta(description="Whether its tasks are listed.")] = True


class JobListQuery(PageQuery):
    """Which jobs a listing shows."""

    status: JobStatus | None = None
    name: Name | None = None

    def to_filter(self) -> JobFilter:
        """Give the filter."""
        check_name(self.name, "name")
        return JobFilter(
            status=self.status,
            name=self.name,
            submitted_after=instant(self.submitted_after, "submitted_after") or EARLIEST,
            submitted_before=instant(self.submitted_before, "submitted_before") or LATEST,
        )


class WorkersQuery(Query):
    """Which workers a listing shows."""

    active_since: Annotated[
        Annotated[str, Meta(max_length=100, extra_json_schema={"pattern": SPAN_PATTERN})] | None,
        Meta(
            description="Only those seen within this time: `90s`, `2m`, `1h30m`, or seconds. "
            "Without it, all are listed, and those seen within two minutes are active."
        ),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=FLEET_PAGE_MAX, description="Most workers of the page.")] = FLEET_PAGE_MAX
    cursor: Annotated[
        Annotated[str, Meta(max_length=NAME_CURSOR_MAX)] | None, Meta(description="`next_cursor` of the page before.")
    ] = None

    def to_filter(self) -> WorkerFilter:
        """Give the filter."""
        return WorkerFilter(active_since=span(self.active_since, "active_since"))

    def to_limit(self, terms: Terms) -> int:
        """Give the number of workers of a page."""
        return page_limit(self.limit, terms)


class QueueQuery(Query):
    """A queue to count."""

    queue: Name

    def to_queue(self) -> str:
        """Give the queue."""
        check_name(self.queue, "queue")
        return self.queue


def _include(given: str | None) -> Include:
    wanted = (given or "").split(",")
    return Include(payload="payload" in wanted, result="result" in wanted, dependencies="dependencies" in wanted)
