"""All settings, each read from an environment variable `CORNDOG_<NAME>`; this is their only table.

`corndog settings` prints it. Durations are seconds, terms are bytes.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

from corndog.domain.limits import BACKOFF_MULTIPLIER_MAX, COUNT_MAX, DURATION_MAX_SECONDS, WINDOW_SIZE_MAX

PREFIX = "CORNDOG_"


class SettingsError(Exception):
    """A setting is missing, unknown or out of range; the message names the variable."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set, with its default and limits."""

    database_url: Annotated[
        str, Meta(description="`postgresql+asyncpg://…` or `cockroachdb+asyncpg://…`; required to serve")
    ] = ""
    redis_url: Annotated[str, Meta(description="`redis://…` or `unix://…`; empty: run without Redis")] = ""
    redis_prefix: Annotated[
        str,
        Meta(
            pattern="^[^{}]+$",
            description="what all keys begin with; another for each database on one Redis",
        ),
    ] = "corndog"
    redis_timeout: Annotated[
        float, Meta(gt=0, le=60, description="longest wait for Redis before a process does without it for a while")
    ] = 1.0
    window_size: Annotated[
        int,
        Meta(ge=1, le=WINDOW_SIZE_MAX, description="most ready tasks of a queue and state that Redis keeps"),
    ] = 2000
    reconcile_interval: Annotated[
        float, Meta(gt=0, le=3600, description="how often what Redis keeps is compared with the database")
    ] = 5.0
    isolation: Annotated[
        Literal["read committed", "serializable"],
        Meta(description="isolation level of every transaction"),
    ] = "read committed"
    pool_size: Annotated[int, Meta(ge=1, le=1000, description="database connections of one process")] = 10
    pool_timeout: Annotated[
        float, Meta(gt=0, le=300, description="longest wait for a database connection before a 503")
    ] = 10.0
    statement_timeout: Annotated[
        float, Meta(gt=0, le=3600, description="the database ends a statement that runs longer than this")
    ] = 30.0
    retry_deadline: Annotated[float, Meta(gt=0, le=300, description="how long a transaction is rerun before a 503")] = (
        15.0
    )

    group_size: Annotated[
        int,
        Meta(
            ge=1, le=1000, description="most writes of different requests that one statement carries; 1: each its own"
        ),
    ] = 100

    default_work_timeout: Annotated[
        float, Meta(ge=0, le=DURATION_MAX_SECONDS, description="clock of a claim that names none; 0: none")
    ] = 300.0
    default_max_attempts: Annotated[
        int, Meta(ge=0, le=COUNT_MAX, description="tries of a task that doesn't say how many; 0: any number")
    ] = 3
    default_backoff: Annotated[
        float, Meta(ge=0, le=DURATION_MAX_SECONDS, description="pause after a task's first failure")
    ] = 5.0
    default_backoff_max: Annotated[
        float, Meta(ge=0, le=DURATION_MAX_SECONDS, description="longest pause after a failure")
    ] = 3600.0
    default_backoff_multiplier: Annotated[
        float, Meta(ge=1, le=BACKOFF_MULTIPLIER_MAX, description="by how much the pause grows with each failure")
    ] = 2.0
    default_jitter: Annotated[
        Literal["full", "none"], Meta(description="whether retries are spread from zero to the whole pause")
    ] = "full"
    max_body_bytes: Annotated[int, Meta(ge=1024, description="largest request body")] = 33_554_432
    max_payload_bytes: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="largest payload or result; unset: 16 MiB on PostgreSQL, 1 MiB on CockroachDB"),
    ] = None
    max_metadata_bytes: Annotated[int, Meta(ge=2, description="largest metadata object")] = 16_384
    max_batch_items: Annotated[
        int, Meta(ge=1, le=10_000, description="most items of one call: next tasks, queues, `count`")
    ] = 1000
    idempotency_ttl: Annotated[
        float,
        Meta(ge=0, le=DURATION_MAX_SECONDS, description="how long an idempotency key is kept after its tasks ended"),
    ] = 86_400.0
    max_page_items: Annotated[int, Meta(ge=1, le=10_000, description="most tasks of one page of a listing")] = 1000

    unpark_interval: Annotated[
        float, Meta(gt=0, le=3600, description="how often parked tasks whose time has come are released")
    ] = 0.2
    cleanup_interval: Annotated[
        float, Meta(ge=0, le=3600, description="how often timed-out tasks are swept; 0: only when asked")
    ] = 0.0
    retention_completed: Annotated[
        float,
        Meta(ge=0, le=DURATION_MAX_SECONDS, description="how long completed tasks and jobs are kept; 0: for ever"),
    ] = 604_800.0
    retention_failed: Annotated[
        float, Meta(ge=0, le=DURATION_MAX_SECONDS, description="how long failed tasks and jobs are kept; 0: for ever")
    ] = 2_592_000.0
    retention_canceled: Annotated[
        float, Meta(ge=0, le=DURATION_MAX_SECONDS, description="how long canceled tasks and jobs are kept; 0: for ever")
    ] = 604_800.0
    retention_workers: Annotated[
        float,
        Meta(ge=0, le=DURATION_MAX_SECONDS, description="how long a worker is known after it was seen; 0: for ever"),
    ] = 86_400.0
    retention_interval: Annotated[
        float, Meta(gt=0, le=3600, description="how often what was kept long enough is deleted")
    ] = 60.0
    scheduler: Annotated[bool, Meta(description="run the loops inside the server (else run `corndog scheduler`)")] = (
        True
    )
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="least severe log line to write")
    ] = "info"

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Self:
        """Read the settings from environment variables.

        Raises:
            SettingsError: a variable is unknown or its value is not allowed.

        """
        given = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in (os.environ if env is None else env).items()
            if name.startswith(PREFIX) and not name.startswith(f"{PREFIX}TEST_")
        }
        known = set(cls.__struct_fields__)
        for name in given.keys() - known:
            raise SettingsError(f"{PREFIX}{name.upper()} is not a setting; `corndog settings` lists them")
        for name, value in given.items():
            try:
                msgspec.convert({name: value}, cls, strict=False)
            except msgspec.ValidationError as error:
                raise SettingsError(f"{PREFIX}{name.upper()}: {str(error).split(' - at ')[0]}") from None
        return msgspec.convert(given, cls, strict=False)

    def to_env(self) -> dict[str, str]:
        """Give the settings that differ from their defaults as environment variables."""
        defaults = type(self)()
        pairs = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {
            f"{PREFIX}{name.upper()}": str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in pairs
            if value != getattr(defaults, name)
        }


def describe() -> list[tuple[str, str, str]]:
    """List every setting as (variable, default, meaning), in order of declaration."""
    schema = msgspec.json.schema(Settings)["$defs"]["Settings"]["properties"]
    return [
        (f"{PREFIX}{name.upper()}", json_text(field.get("default")), field.get("description", ""))
        for name, field in schema.items()
    ]


def json_text(value: object) -> str:
    """Write a default as it would be given in the environment."""
    return "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
