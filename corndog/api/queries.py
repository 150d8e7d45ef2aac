"""What clients put into query strings of reads."""

from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.fields import AnyState, Name, Time, WorkerId
from corndog.domain.errors import Invalid
from corndog.domain.limits import Terms, check_name, instant
from corndog.domain.listing import EARLIEST, LATEST, Filter, Include
from corndog.domain.task import Phase

DEFAULT_PAGE = 100
CURSOR_MAX = 200

Includes = Literal["payload", "result", "payload,result", "result,payload"]


class Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all queries: unknown parameters are refused."""


class GetQuery(Query):
    """What is read besides the record."""

    include: Annotated[Includes | None, Meta(description="What to read besides the record.")] = None

    def to_include(self) -> Include:
        """Give what is to be included."""
        wanted = (self.include or "").split(",")
        return Include(payload="payload" in wanted, result="result" in wanted)


class ListQuery(GetQuery):
    """Which tasks a listing shows."""

    queue: Name | None = None
    current_state: AnyState | None = None
    phase: Phase | None = None
    kind: Name | None = None
    worker_id: Annotated[WorkerId | None, Meta(description="Who holds, or at the end held, the task.")] = None
    job_id: UUID | None = None
    submitted_after: Annotated[Time | None, Meta(description="From this time on.")] = None
    submitted_before: Annotated[Time | None, Meta(description="Before this time.")] = None
    archived: Annotated[bool, Meta(description="List ended tasks instead of live ones.")] = False
    limit: Annotated[int, Meta(ge=1, description="Most tasks of the page.")] = DEFAULT_PAGE
    cursor: Annotated[
        Annotated[str, Meta(max_length=CURSOR_MAX)] | None, Meta(description="`next_cursor` of the page before.")
    ] = None

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

    def to_limit(self, terms: Terms) -> int:
        """Give the number of tasks of a page."""
        if self.limit > terms.page:
            raise Invalid(f"at most {terms.page} are allowed", field="limit")
        return self.limit


class QueueQuery(Query):
    """A queue to count."""

    queue: Name

    def to_queue(self) -> str:
        """Give the queue."""
        check_name(self.queue, "queue")
        return self.queue
