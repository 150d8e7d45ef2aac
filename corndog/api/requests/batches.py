"""The body that submits many tasks at once."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Meta, Raw

from corndog.api.fields import IdempotencyKey
from corndog.api.media import Media
from corndog.api.reading import decode
from corndog.api.requests.base import Body
from corndog.api.requests.submits import Submit
from corndog.domain.errors import Fault, Invalid
from corndog.domain.limits import Terms
from corndog.domain.task import NewTask

_FAULTS_MAX = 100
"""How many faults of a batch are told at once."""


class Asked(NamedTuple):
    """A task that is asked for, and the same as repeats of its request are compared."""

    new: NewTask
    compared: NewTask


class Batch(Body, kw_only=True):
    """New tasks, each by itself; with an `idempotency_key` the same request makes them once."""

    tasks: Annotated[
        list[Raw],
        Meta(min_length=1, description="In the order in which they are submitted; one that is wrong stops no other."),
    ]
    idempotency_key: IdempotencyKey | None = None


def read_item(media: Media, terms: Terms, raw: Raw) -> Asked | Invalid:
    """Decode one item, or give its refusal, which names fields as those of a submit."""
    try:
        wanted = decode(media, bytes(raw), Submit)
        new = wanted.to_new(media, terms)
    except Invalid as error:
        return error
    return Asked(new, wanted.asked(new))


def refuse_all(refused: Mapping[int, Invalid]) -> Invalid:
    """Give the refusal of a batch for what is wrong with its items: the first decides, and all are told."""
    faults = [
        Fault(f"tasks[{place}].{error.field}" if error.field else f"tasks[{place}]", str(error))
        for place, error in refused.items()
    ]
    first = next(iter(refused.values()))
    first.field = faults[0].field
    first.faults = faults[:_FAULTS_MAX] if len(faults) > 1 else ()
    return first
