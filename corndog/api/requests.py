"""What clients send, and how it becomes what the use cases take.

Types, lengths and ranges are held while decoding; each `to_…` holds the rest and names the field in its refusals.
"""

from collections.abc import Sequence
from datetime import timedelta
from math import isfinite
from typing import Annotated, ClassVar
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.combinations import CLOCK_WITHOUT_TARGET, NOTHING_TO_MATCH, Forbidden, alone, both
from corndog.api.contents import read_content, read_metadata
from corndog.api.fields import (
    UNGIVEN,
    AnyJson,
    AnyState,
    Base64,
    Count,
    Delivery,
    JsonObject,
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
from corndog.domain.checks import check_new
from corndog.domain.errors import Invalid
from corndog.domain.limits import Sizes, check_name, duration, instant
from corndog.domain.task import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_QUEUE,
    DEFAULT_STATE,
    Change,
    Claim,
    Content,
    Hold,
    Jitter,
    Match,
    NewTask,
    RetryPolicy,
)

_DEFAULTS = RetryPolicy()


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all bodies: unknown fields are refused."""

    FORBIDDEN: ClassVar[Forbidden] = ()


class SubmitFields(Body):
    """A new task, but for what it carries."""

    queue: Name = DEFAULT_QUEUE
    kind: Annotated[Name | None, Meta(description="Handler name, for worker runtimes to dispatch on.")] = None
    current_state: State = DEFAULT_STATE
    auto_target_state: Annotated[
        State | None,
        Meta(description="The state that a claim or a timeout swaps to; default: current_state + `-working`."),
    ] = None
    priority: Priority = 0
    delay: Annotated[Seconds | None, Meta(description="Parks the task for so long.")] = None
    run_at: Annotated[Time | None, Meta(description="Parks the task until then.")] = None
    timeout: Annotated[
        Seconds | None,
        Meta(description="Clock of the unclaimed task; 0 or absent: none. Needs an auto_target_state."),
    ] = None
    work_timeout: Annotated[
        Seconds | None, Meta(description="Clock of each claim; absent: the server's default, 0: none.")
    ] = None
    max_attempts: Annotated[Count | None, Meta(description="How many tries may fail; null: any number.")] = (
        DEFAULT_MAX_ATTEMPTS
    )
    backoff: Seconds = _DEFAULTS.backoff.total_seconds()
    backoff_max: Seconds = _DEFAULTS.backoff_max.total_seconds()
    backoff_multiplier: Annotated[float, Meta(ge=1, le=1000)] = _DEFAULTS.backoff_multiplier
    jitter: Jitter = _DEFAULTS.jitter
    max_lost: Annotated[
        Count | None,
        Meta(description="How many deliveries may time out before the task ends as failed; null: any number."),
    ] = None

    def to_task(self, payload: Content | None, metadata: str | None = None, at: str = "") -> NewTask:
        """Give the task that is asked for; `at` prefixes fields in refusals."""
        for field in ("queue", "kind", "current_state", "auto_target_state"):
            check_name(getattr(self, field), at + field)
        new = NewTask(
            queue=self.queue,
            kind=self.kind,
            current_state=self.current_state,
            auto_target_state=self.auto_target_state,
            priority=self.priority,
            delay=duration(self.delay, f"{at}delay"),
            run_at=instant(self.run_at, f"{at}run_at"),
            timeout=duration(self.timeout, f"{at}timeout"),
            work_timeout=duration(self.work_timeout, f"{at}work_timeout"),
            policy=RetryPolicy(
                max_attempts=self.max_attempts,
                backoff=_given(self.backoff, f"{at}backoff"),
                backoff_max=_given(self.backoff_max, f"{at}backoff_max"),
                backoff_multiplier=_finite(self.backoff_multiplier, f"{at}backoff_multiplier"),
                jitter=self.jitter,
                max_lost=self.max_lost,
            ),
            metadata=metadata,
            payload=payload,
        )
        # The use case checks the same, and knows no names of fields.
        check_new(new, at)
        return new


class Submit(SubmitFields):
    """A new task."""

    FORBIDDEN: ClassVar[Forbidden] = (
        both("delay", "run_at", delay={"type": "number"}, run_at={"type": "string"}),
        both("payload", "payload_base64"),
        alone("content_type", "payload", "payload_base64"),
        CLOCK_WITHOUT_TARGET,
    )

    payload: AnyJson | Ungiven = UNGIVEN
    payload_base64: Base64 | Ungiven = UNGIVEN
    content_type: Annotated[
        MediaType | None, Meta(description="Default: application/json for `payload`, else application/octet-stream.")
    ] = None
    metadata: JsonObject | Ungiven = UNGIVEN

    def to_new(self, media: Media, sizes: Sizes, at: str = "") -> NewTask:
        """Give the task that is asked for."""
        payload = read_content(
            media, sizes, self.payload, self.payload_base64, self.content_type, f"{at}payload", f"{at}content_type"
        )
        metadata = read_metadata(media, sizes, self.metadata, f"{at}metadata")
        return self.to_task(payload, metadata, at)


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

    def to_claim(self, sizes: Sizes) -> Claim:
        """Give the claim that is asked for."""
        if self.queue is not None and self.queues is not None:
            raise Invalid("give either `queue` or `queues`, not both", field="queues")
        _at_most(len(self.queues or ()), sizes.items, "queues")
        queues = tuple(dict.fromkeys(self.queues or [self.queue or DEFAULT_QUEUE]))
        for queue in queues:
            check_name(queue, "queues" if self.queues else "queue")
        for field in ("current_state", "override_current_state", "override_auto_target_state", "worker_id"):
            check_name(getattr(self, field), field)
        _at_most(self.count, sizes.items, "count")
        return Claim(
            queues=queues,
            current_state=self.current_state,
            override_current_state=self.override_current_state,
            override_auto_target_state=self.override_auto_target_state,
            override_timeout=duration(self.override_timeout, "override_timeout"),
            count=self.count,
            worker_id=self.worker_id,
        )

    def to_wait(self) -> float:
        """Give the seconds to wait."""
        return _finite(self.wait, "wait")


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

    def to_change(self, media: Media, sizes: Sizes) -> Change:
        """Give the change that is asked for."""
        check_name(self.new_state, "new_state")
        check_name(self.auto_target_state, "auto_target_state")
        return Change(
            new_state=self.new_state,
            auto_target_state=self.auto_target_state,
            timeout=duration(self.timeout, "timeout"),
            priority=self.priority,
            payload=read_content(
                media, sizes, self.payload, self.payload_base64, self.content_type, "payload", "content_type"
            ),
        )


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

    def to_result(self, media: Media, sizes: Sizes) -> Content | None:
        """Give the result, if there is one."""
        return read_content(
            media,
            sizes,
            self.result,
            self.result_base64,
            self.result_content_type,
            "result",
            "result_content_type",
        )

    def to_next(self, media: Media, sizes: Sizes) -> Sequence[NewTask]:
        """Give the next tasks, in order."""
        if self.next_task is not None and self.next_tasks is not None:
            raise Invalid("give either `next_task` or `next_tasks`, not both", field="next_tasks")
        if self.next_task is not None:
            return [self.next_task.to_new(media, sizes, at="next_task.")]
        wanted = self.next_tasks or []
        _at_most(len(wanted), sizes.items, "next_tasks")
        return [new.to_new(media, sizes, at=f"next_tasks[{place}].") for place, new in enumerate(wanted)]


class Release(MatchFields, kw_only=True):
    """Gives a held task back: back home, no attempt used."""

    delivery: Annotated[Delivery, Meta(description="The hold's number.")]
    delay: Annotated[Seconds | None, Meta(description="Parks the task for so long.")] = None

    def to_delay(self) -> timedelta | None:
        """Give the delay."""
        return duration(self.delay, "delay")


class Cancel(MatchFields):
    """Ends a task, whoever holds it."""


class HeldTask(Body):
    """A delivery that the worker holds, as far as it knows."""

    id: UUID
    delivery: Delivery

    def to_hold(self) -> Hold:
        """Give the hold."""
        return Hold(self.id, self.delivery)


class Heartbeat(Body):
    """What a worker holds, and goes on holding if it still does."""

    worker_id: Annotated[WorkerId, Meta(description="Who holds them.")] = ""
    deliveries: Annotated[list[HeldTask], Meta(description="What it holds; may be empty.")] = []

    def to_holds(self, sizes: Sizes) -> list[Hold]:
        """Give the holds."""
        check_name(self.worker_id, "worker_id")
        _at_most(len(self.deliveries), sizes.items, "deliveries")
        return [delivery.to_hold() for delivery in self.deliveries]


class CleanUp(Body):
    """A sweep of timed-out tasks."""

    at_time: Annotated[
        Time | None, Meta(description="Ends clocks that run out by then; default: now. May be in the future.")
    ] = None
    queue: Annotated[Name | None, Meta(description="Default: all queues.")] = None


def _given(seconds: float, field: str) -> timedelta:
    value = duration(seconds, field)
    assert value is not None
    return value


def _finite(number: float, field: str) -> float:
    if not isfinite(number):
        raise Invalid("a finite number is expected", field=field)
    return number


def _at_most(number: int, limit: int, field: str) -> None:
    if number > limit:
        raise Invalid(f"{number} are too many: at most {limit} are allowed", field=field)
