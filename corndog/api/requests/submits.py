"""Bodies that submit tasks."""

from datetime import timedelta
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from corndog.api.combinations import CLOCK_WITHOUT_TARGET, Forbidden, alone, both
from corndog.api.contents import read_content, read_metadata
from corndog.api.fields import (
    UNGIVEN,
    AnyJson,
    Base64,
    Count,
    IdempotencyKey,
    JsonObject,
    MediaType,
    Name,
    Priority,
    Seconds,
    State,
    Time,
    Ungiven,
)
from corndog.api.media import Media
from corndog.api.requests.base import Body, finite, given
from corndog.domain.checks import check_new
from corndog.domain.limits import BACKOFF_MULTIPLIER_MAX, Terms, check_name, duration, instant
from corndog.domain.task import (
    DEFAULT_QUEUE,
    DEFAULT_STATE,
    Content,
    Jitter,
    NewTask,
    RetryPolicy,
)

_LEFT_TO_THE_SERVER = RetryPolicy(
    max_attempts=0, backoff=timedelta(-1), backoff_max=timedelta(-1), backoff_multiplier=0, jitter=Jitter.FULL
)
"""Stands for what a request doesn't say of its retries: nobody can ask for such a policy."""


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
    max_attempts: (
        Annotated[
            Count | None,
            Meta(description="How many tries may fail; null: any number. Absent: the server's default."),
        ]
        | Ungiven
    ) = UNGIVEN
    backoff: Annotated[Seconds, Meta(description="Pause after the first failure.")] | Ungiven = UNGIVEN
    backoff_max: Annotated[Seconds, Meta(description="Longest pause.")] | Ungiven = UNGIVEN
    backoff_multiplier: (
        Annotated[
            float, Meta(ge=1, le=BACKOFF_MULTIPLIER_MAX, description="By how much the pause grows with each failure.")
        ]
        | Ungiven
    ) = UNGIVEN
    jitter: (
        Annotated[Jitter, Meta(description="Whether retries are spread from zero to the whole pause.")] | Ungiven
    ) = UNGIVEN
    max_lost: Annotated[
        Count | None,
        Meta(description="How many deliveries may time out before the task ends as failed; null: any number."),
    ] = None

    def to_policy(self, default: RetryPolicy, at: str = "") -> RetryPolicy:
        """Give the retry policy; what it doesn't say is the server's."""
        return RetryPolicy(
            max_attempts=default.max_attempts if isinstance(self.max_attempts, Ungiven) else self.max_attempts,
            backoff=default.backoff if isinstance(self.backoff, Ungiven) else given(self.backoff, f"{at}backoff"),
            backoff_max=(
                default.backoff_max
                if isinstance(self.backoff_max, Ungiven)
                else given(self.backoff_max, f"{at}backoff_max")
            ),
            backoff_multiplier=(
                default.backoff_multiplier
                if isinstance(self.backoff_multiplier, Ungiven)
                else finite(self.backoff_multiplier, f"{at}backoff_multiplier")
            ),
            jitter=default.jitter if isinstance(self.jitter, Ungiven) else self.jitter,
            max_lost=self.max_lost,
        )

    def to_task(self, terms: Terms, payload: Content | None, metadata: str | None = None, at: str = "") -> NewTask:
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
            policy=self.to_policy(terms.retry, at),
            metadata=metadata,
            payload=payload,
        )
        # The use case checks the same, and knows no names of fields.
        check_new(new, at)
        return new

    def asked(self, new: NewTask) -> NewTask:
        """Give the task as repeats of its request are compared, whatever their encoding and the server's defaults."""
        policy = self.to_policy(_LEFT_TO_THE_SERVER)
        return msgspec.structs.replace(new, metadata=in_one_form(new.metadata), policy=policy)


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

    def to_new(self, media: Media, terms: Terms, at: str = "") -> NewTask:
        """Give the task that is asked for."""
        payload = read_content(
            media, terms, self.payload, self.payload_base64, self.content_type, f"{at}payload", f"{at}content_type"
        )
        metadata = read_metadata(media, terms, self.metadata, f"{at}metadata")
        return self.to_task(terms, payload, metadata, at)


class SubmitOnce(Submit):
    """A new task; with an `idempotency_key` the same request makes it once."""

    idempotency_key: IdempotencyKey | None = None


class RawSubmit(SubmitFields):
    """A new task whose payload is the body."""

    idempotency_key: IdempotencyKey | None = None


def in_one_form(metadata: str | None) -> str | None:
    """Write metadata as all that say the same are written."""
    if metadata is None:
        return None
    return msgspec.json.encode(msgspec.json.decode(metadata), order="sorted").decode()
