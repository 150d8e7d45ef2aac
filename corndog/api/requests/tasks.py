"""Bodies that claim and move tasks."""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from corndog.api.combinations import NOTHING_TO_MATCH, Forbidden, alone, both
from corndog.api.contents import read_content
from corndog.api.fields import (
    UNGIVEN,
    AnyJson,
    AnyState,
    Base64,
    Delivery,
    MediaType,
    Name,
    Priority,
    Seconds,
    State,
    Time,
    Ungiven,
    Wait,
    WorkerId,
)
from corndog.api.media import Media
from corndog.api.requests.base import Body, at_most, finite
from corndog.domain.errors import Invalid
from corndog.domain.limits import Terms, check_name, duration
from corndog.domain.task import (
    DEFAULT_QUEUE,
    DEFAULT_STATE,
    Change,
    Claim,
    Match,
    RetryPolicy,
)

_DEFAULTS = RetryPolicy()


class Next(Body):
    """A claim of ready tasks."""

    FORBIDDEN: ClassVar[Forbidden] = (both("queue", "queues", queue={"type": "string"}, queues={"type": "array"}),)

    queue: Annotated[Name | None, Meta(description="Default: `default`.")] = None
    queues: Annotated[
        Annotated[list[Name], Meta(min_length=1)] | None,
        Meta(description="Instead of `queue`: the best priority, then the oldest, of all of them."),
    ] = None
    current_state: AnyState = DEFAULT_STATE
    override_current_state: Annotated[
        State | None, Meta(description="Applies after the swap: the state while held.")
    ] = None
    override_auto_target_state: Annotated[
        State | None, Meta(description="Applies after the swap: where a timeout leads.")
    ] = None
    override_timeout: Annotated[
        Seconds | None, Meta(description="Clock of this claim; absent: the task's work_timeout, 0: none.")
    ] = None
    count: Annotated[int, Meta(ge=1, description="Most tasks to claim.")] = 1
    wait: Wait = 0.0
    worker_id: Annotated[WorkerId, Meta(description="Who holds them from now on.")] = ""
    include: Annotated[
        list[Literal["dependencies"]],
        Meta(description="`dependencies`: how those that a task depends on ended, and their results."),
    ] = msgspec.field(default_factory=list)

    def to_claim(self, terms: Terms, at: str = "") -> Claim:
        """Give the claim that is asked for; `at` prefixes fields in refusals."""
        if self.queue is not None and self.queues is not None:
            raise Invalid("give either `queue` or `queues`, not both", field=f"{at}queues")
        at_most(len(self.queues or ()), terms.items, f"{at}queues")
        queues = tuple(dict.fromkeys(self.queues or [self.queue or DEFAULT_QUEUE]))
        for queue in queues:
            check_name(queue, f"{at}queues" if self.queues else f"{at}queue")
        for field in ("current_state", "override_current_state", "override_auto_target_state", "worker_id"):
            check_name(getattr(self, field), at + field)
        at_most(self.count, terms.items, f"{at}count")
        return Claim(
            queues=queues,
            current_state=self.current_state,
            override_current_state=self.override_current_state,
            override_auto_target_state=self.override_auto_target_state,
            override_timeout=duration(self.override_timeout, f"{at}override_timeout"),
            count=self.count,
            worker_id=self.worker_id,
        )

    def to_wait(self, at: str = "") -> float:
        """Give the seconds to wait."""
        return finite(self.wait, f"{at}wait")


class MatchFields(Body):
    """What the caller takes the task to be: what is given must agree, or nothing is written."""

    queue: Name | None = None
    current_state: Annotated[
        AnyState | None, Meta(description="Required of a task that is not held, unless it is canceled.")
    ] = None
    delivery: Annotated[
        Delivery | None, Meta(description="Required of a held task, unless it is canceled: the hold's number.")
    ] = None

    def to_match(self) -> Match:
        """Give what is to be matched."""
        check_name(self.queue, "queue")
        check_name(self.current_state, "current_state")
        return Match(queue=self.queue, current_state=self.current_state, delivery=self.delivery)


class Update(MatchFields):
    """A move to a new state, or with none (or the present one) a progress write."""

    FORBIDDEN: ClassVar[Forbidden] = (
        NOTHING_TO_MATCH,
        both("payload", "payload_base64"),
        alone("content_type", "payload", "payload_base64"),
    )

    new_state: Annotated[State | None, Meta(description="Ends a hold; the task is ready there.")] = None
    auto_target_state: Annotated[
        State | None, Meta(description="Default: new_state + `-working`; of a progress write: as it is.")
    ] = None
    timeout: Annotated[
        Seconds | None,
        Meta(description="With a new state: its clock. Of a progress write: restarts the clock; absent: as it is."),
    ] = None
    priority: Annotated[Priority, Meta(description="Must be given again each time.")] = 0
    payload: AnyJson | Ungiven = UNGIVEN
    payload_base64: Base64 | Ungiven = UNGIVEN
    content_type: MediaType | None = None

    def to_change(self, media: Media, terms: Terms) -> Change:
        """Give the change that is asked for."""
        check_name(self.new_state, "new_state")
        check_name(self.auto_target_state, "auto_target_state")
        return Change(
            new_state=self.new_state,
            auto_target_state=self.auto_target_state,
            timeout=duration(self.timeout, "timeout"),
            priority=self.priority,
            payload=read_content(
                media, terms, self.payload, self.payload_base64, self.content_type, "payload", "content_type"
            ),
        )


class Release(MatchFields, kw_only=True):
    """Gives a held task back: back home, no attempt used."""

    delivery: Annotated[Delivery, Meta(description="The hold's number.")]
    delay: Annotated[Seconds | None, Meta(description="Parks the task for so long.")] = None

    def to_delay(self) -> timedelta | None:
        """Give the delay."""
        return duration(self.delay, "delay")


class CleanUp(Body):
    """A sweep of timed-out tasks."""

    at_time: Annotated[
        Time | None, Meta(description="Ends clocks that run out by then; default: now. May be in the future.")
    ] = None
    queue: Annotated[Name | None, Meta(description="Default: all queues.")] = None
