"""Bodies about workers and what they hold."""

from typing import Annotated, Any, ClassVar
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.combinations import Forbidden, both
from corndog.api.contents import read_metadata
from corndog.api.fields import UNGIVEN, Delivery, JsonObject, Name, Ungiven, WorkerId
from corndog.api.media import Media
from corndog.api.requests.base import Body, at_most
from corndog.domain.errors import Invalid
from corndog.domain.limits import Terms, check_name
from corndog.domain.task import Hold

_NOBODY: dict[str, Any] = {"properties": {"worker_ids": {"type": "null"}, "all": {"const": False}}}


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
    deliveries: Annotated[list[HeldTask], Meta(description="What it holds; may be empty.")] = msgspec.field(
        default_factory=list
    )

    metadata: Annotated[
        JsonObject | Ungiven, Meta(description="What its people want to know of it: host, version, ….")
    ] = UNGIVEN

    def to_metadata(self, media: Media, terms: Terms) -> str | None:
        """Give what is kept with the worker's name, as JSON text."""
        return read_metadata(media, terms, self.metadata, "metadata")

    def to_holds(self, terms: Terms) -> list[Hold]:
        """Give the holds."""
        check_name(self.worker_id, "worker_id")
        at_most(len(self.deliveries), terms.items, "deliveries")
        return [delivery.to_hold() for delivery in self.deliveries]


class Drain(Body):
    """Who is to take no more tasks, and to end."""

    FORBIDDEN: ClassVar[Forbidden] = (
        _NOBODY,
        both("worker_ids", "all", worker_ids={"type": "array"}, all={"const": True}),
    )

    worker_ids: Annotated[list[Name] | None, Meta(description="These workers.")] = None
    all: Annotated[bool, Meta(description="All workers that there are now, instead.")] = False
    drain: Annotated[bool, Meta(description="False takes it back.")] = True

    def to_ids(self, terms: Terms) -> list[str] | None:
        """Name the workers; None: all."""
        if self.worker_ids is None:
            if not self.all:
                raise Invalid("required: name workers, or give `all`", field="worker_ids")
            return None
        if self.all:
            raise Invalid("give either `worker_ids` or `all`, not both", field="all")
        at_most(len(self.worker_ids), terms.items, "worker_ids")
        for place, worker_id in enumerate(self.worker_ids):
            check_name(worker_id, f"worker_ids[{place}]")
        return self.worker_ids
