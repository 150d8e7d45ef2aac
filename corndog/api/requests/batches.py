"""Bodies about many tasks at once."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple, Protocol, TypeVar
from uuid import UUID

from msgspec import Meta, Raw

from corndog.api.fields import IdempotencyKey
from corndog.api.media import Media
from corndog.api.reading import decode
from corndog.api.requests.base import Body, at_most
from corndog.api.requests.endings import Complete, Fail, NextClaim
from corndog.api.requests.submits import Submit
from corndog.domain.errors import Fault, Invalid
from corndog.domain.limits import Terms
from corndog.domain.task import NewTask
from corndog.service.endings import Completing, Failing

_Asked_co = TypeVar("_Asked_co", covariant=True)

_FAULTS_MAX = 100
"""How many faults of a batch are told at once."""


class Asked(NamedTuple):
    """A task that is asked for, and how."""

    new: NewTask
    wanted: Submit

    @property
    def compared(self) -> NewTask:
        """The task as repeats of its request are compared."""
        return self.wanted.asked(self.new)


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
    return Asked(new, wanted)


class CompleteItem(Complete, kw_only=True):
    """The end of one task's work, and what comes next."""

    id: UUID

    def to_item(self, media: Media, terms: Terms) -> Completing:
        """Give what is asked for."""
        return Completing(self.id, self.to_match(), self.to_result(media, terms), self.to_next(media, terms))


class FailItem(Fail, kw_only=True):
    """A try of one task that failed."""

    id: UUID

    def to_item(self, _media: Media, _terms: Terms) -> Failing:
        """Give what is asked for."""
        return Failing(self.id, self.to_match(), self.to_failure())


class CompleteMany(Body, kw_only=True):
    """The ends of many tasks' work, and what their worker does next."""

    tasks: Annotated[list[Raw], Meta(min_length=1, description="One that is refused stops no other.")]
    claim: NextClaim = None


class FailMany(Body, kw_only=True):
    """Many tries that failed."""

    tasks: Annotated[list[Raw], Meta(min_length=1, description="One that is refused stops no other.")]


class _Item(Protocol[_Asked_co]):
    def to_item(self, media: Media, terms: Terms) -> _Asked_co: ...


def read_items(
    media: Media, terms: Terms, items: Sequence[Raw], wanted: type[_Item[_Asked_co]]
) -> list[_Asked_co | Invalid]:
    """Decode items, or give their refusals, which name fields as those of a single call."""
    at_most(len(items), terms.items, "tasks")
    return [_read(media, terms, raw, wanted) for raw in items]


def _read(media: Media, terms: Terms, raw: Raw, wanted: type[_Item[_Asked_co]]) -> _Asked_co | Invalid:
    try:
        return decode(media, bytes(raw), wanted).to_item(media, terms)
    except Invalid as error:
        return error


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
