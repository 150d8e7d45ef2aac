"""Bodies about jobs."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from corndog.api.combinations import Forbidden, alone, both
from corndog.api.contents import read_metadata
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
from corndog.api.requests.base import Body
from corndog.api.requests.submits import Submit, in_one_form
from corndog.domain.errors import Fault, Invalid, TooLarge
from corndog.domain.jobs import JOB_TASKS_MAX, Member, NewJob, OnParentFailure, faults_of, invalid_job
from corndog.domain.limits import BACKOFF_MULTIPLIER_MAX, Terms, check_name
from corndog.domain.task import Jitter, NewTask


class JobDefaults(Body):
    """What holds for each task of a job that doesn't say otherwise; the fields are those of a submit."""

    queue: Name | Ungiven = UNGIVEN
    kind: Name | Ungiven | None = UNGIVEN
    current_state: State | Ungiven = UNGIVEN
    auto_target_state: State | Ungiven | None = UNGIVEN
    priority: Priority | Ungiven = UNGIVEN
    timeout: Seconds | Ungiven | None = UNGIVEN
    work_timeout: Seconds | Ungiven | None = UNGIVEN
    max_attempts: Count | Ungiven | None = UNGIVEN
    backoff: Seconds | Ungiven = UNGIVEN
    backoff_max: Seconds | Ungiven = UNGIVEN
    backoff_multiplier: Annotated[float, Meta(ge=1, le=BACKOFF_MULTIPLIER_MAX)] | Ungiven = UNGIVEN
    jitter: Jitter | Ungiven = UNGIVEN
    max_lost: Count | Ungiven | None = UNGIVEN


class JobTask(JobDefaults, kw_only=True):
    """A task of a new job: the fields of a submit, its name in the job, and the names of the tasks it waits for."""

    FORBIDDEN: ClassVar[Forbidden] = (
        both("delay", "run_at", delay={"type": "number"}, run_at={"type": "string"}),
        both("payload", "payload_base64"),
        alone("content_type", "payload", "payload_base64"),
    )

    name: Name
    depends_on: Annotated[list[Name], Meta(description="Names of tasks of this job.")] = msgspec.field(
        default_factory=list
    )
    on_parent_failure: Annotated[
        OnParentFailure,
        Meta(description="`run`: it runs, too, if one that it depends on ends as failed or canceled."),
    ] = OnParentFailure.CANCEL
    delay: Annotated[
        Seconds | None, Meta(description="Parks the task for so long, once what it depends on is done.")
    ] = None
    run_at: Annotated[Time | None, Meta(description="Parks the task until then, once what it depends on is done.")] = (
        None
    )
    payload: AnyJson | Ungiven = UNGIVEN
    payload_base64: Base64 | Ungiven = UNGIVEN
    content_type: MediaType | None = None
    metadata: JsonObject | Ungiven = UNGIVEN

    def to_submit(self, defaults: JobDefaults) -> Submit:
        """Give what would submit the task by itself."""
        fields: dict[str, Any] = {}
        for source in (defaults, self):
            for name in source.__struct_fields__:
                value = getattr(source, name)
                if name in Submit.__struct_fields__ and not isinstance(value, Ungiven):
                    fields[name] = value
        return Submit(**fields)


class AskedJob(NamedTuple):
    """A job that is asked for, and the same as repeats of its request are compared."""

    new: NewJob
    compared: NewJob


class SubmitJob(Body, kw_only=True):
    """A new job: tasks that may wait for each other; with an `idempotency_key` the same request makes it once."""

    idempotency_key: IdempotencyKey | None = None
    name: Annotated[Name | None, Meta(description="For people, and to filter by; need not be unique.")] = None
    metadata: JsonObject | Ungiven = UNGIVEN
    defaults: JobDefaults = msgspec.field(default_factory=JobDefaults)
    tasks: Annotated[
        list[JobTask],
        Meta(
            description=f"At most {JOB_TASKS_MAX}.",
            extra_json_schema={"minItems": 1, "maxItems": JOB_TASKS_MAX},
        ),
    ]

    def to_job(self, media: Media, terms: Terms) -> AskedJob:
        """Give the job that is asked for; all that is wrong with it is told at once."""
        check_name(self.name, "name")
        metadata = read_metadata(media, terms, self.metadata, "metadata")
        wrong: list[Fault] = []
        asked = [self._member(task, f"tasks[{place}].", media, terms, wrong) for place, task in enumerate(self.tasks)]
        members = [new for new, _ in asked]
        if wrong:
            raise invalid_job(wrong + faults_of(members))
        new = NewJob(name=self.name, metadata=metadata, members=members)
        same = NewJob(name=self.name, metadata=in_one_form(metadata), members=[compared for _, compared in asked])
        return AskedJob(new, same)

    def _member(self, task: JobTask, at: str, media: Media, terms: Terms, wrong: list[Fault]) -> tuple[Member, Member]:
        """Give a task as it is asked for, and as repeats of its request are compared."""
        new = compared = NewTask()
        try:
            check_name(task.name, f"{at}name")
            _check_names(task.depends_on, f"{at}depends_on")
            submit = task.to_submit(self.defaults)
            new = submit.to_new(media, terms, at)
            compared = submit.asked(new)
        except TooLarge:
            raise
        except Invalid as error:
            wrong.append(Fault(error.field or at, str(error)))
        member = Member(name=task.name, new=new, depends_on=task.depends_on, on_parent_failure=task.on_parent_failure)
        return member, msgspec.structs.replace(member, new=compared)


class EndJob(Body):
    """Cancels or revives a job."""


def _check_names(names: Sequence[str], field: str) -> None:
    for place, name in enumerate(names):
        check_name(name, f"{field}[{place}]")
