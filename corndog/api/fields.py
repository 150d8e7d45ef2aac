"""The types of single fields, each with its limits, as bodies, queries and the API's document use them."""

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Raw, UnsetType

from corndog.domain import limits

UNGIVEN = UNSET
Ungiven: TypeAlias = UnsetType

_no_control = {"pattern": limits.CONTROL_PATTERN}

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=limits.NAME_MAX, extra_json_schema=_no_control)]
WorkerId: TypeAlias = Annotated[str, Meta(max_length=limits.NAME_MAX, extra_json_schema=_no_control)]
State: TypeAlias = Annotated[str, Meta(min_length=1, max_length=limits.STATE_MAX, extra_json_schema=_no_control)]
IdempotencyKey: TypeAlias = Annotated[
    Name, Meta(description="The same request under the same key is done once; also as the header `Idempotency-Key`.")
]
AnyState: TypeAlias = Name
"""A state to match: derived ones are longer than those that can be submitted."""

Priority: TypeAlias = Annotated[
    int, Meta(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX, description="Higher comes first.")
]
Seconds: TypeAlias = Annotated[
    float,
    Meta(
        ge=0,
        le=limits.DURATION_MAX_SECONDS,
        description="Seconds, with at most 6 decimals.",
        extra_json_schema={"multipleOf": 0.000001},
    ),
]
Time: TypeAlias = Annotated[
    str, Meta(description="RFC 3339, with an offset.", extra_json_schema={"format": "date-time"})
]
Wait: TypeAlias = Annotated[
    float, Meta(ge=0, le=limits.WAIT_MAX, description="Seconds to wait for the first task, if none is ready.")
]
MediaType: TypeAlias = Annotated[
    str, Meta(max_length=limits.NAME_MAX, extra_json_schema={"pattern": limits.MEDIA_TYPE_PATTERN})
]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=limits.COUNT_MAX)]
Delivery: TypeAlias = Annotated[int, Meta(ge=1, le=limits.DELIVERY_MAX)]
Base64: TypeAlias = Annotated[
    bytes,
    Meta(description="Bytes: as base64 in JSON, as they are in MessagePack.", extra_json_schema={"format": "byte"}),
]
AnyJson: TypeAlias = Annotated[
    Raw, Meta(description="Any JSON value, kept as the very bytes that were sent. `null` is one, absent is none.")
]
JsonObject: TypeAlias = Annotated[
    Raw,
    Meta(
        description="A small object of the submitter's own, at most 100 levels deep, with integers of at most 64 bits.",
        extra_json_schema={"type": ["object", "null"]},
    ),
]
