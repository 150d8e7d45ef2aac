"""Bodies about workers and what they hold."""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from corndog.api.fields import (
    Delivery,
    WorkerId,
)
from corndog.api.requests.base import Body, at_most
from corndog.domain.limits import Terms, check_name
from corndog.domain.task import (
    Hold,
    RetryPolicy,
)

_DEFAULTS = RetryPolicy()


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

    def to_holds(self, terms: Terms) -> list[Hold]:
        """Give the holds."""
        check_name(self.worker_id, "worker_id")
        at_most(len(self.deliveries), terms.items, "deliveries")
        return [delivery.to_hold() for delivery in self.deliveries]
