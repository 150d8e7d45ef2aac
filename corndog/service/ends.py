"""The work that ends tasks or their tries: over a group of items, on one connection."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from corndog.domain.task import Outcome, Phase, Task, Window
from corndog.service.dependents import settle
from corndog.service.groups import bytes_of, id_of
from corndog.store import tasks as store
from corndog.store.engine import Connection

_OUTCOMES = {
    Phase.COMPLETED: Outcome.SUCCEEDED,
    Phase.FAILED: Outcome.FAILED,
    Phase.CANCELED: Outcome.CANCELED,
}


class Ends(NamedTuple):
    """What was written: the tasks that it was about, by id, and the others with them.

    A task that one item was refused for may be among the others: it waited for the task of another item.
    """

    own: dict[UUID, Task]
    others: list[Task]


class Completion(msgspec.Struct, frozen=True):
    """A task to be completed, and what is submitted with that."""

    ending: store.Ending
    next_tasks: Sequence[store.Submission]

    @property
    def id(self) -> UUID:
        """The task's id."""
        return self.ending.id

    @property
    def bytes(self) -> int:
        """The size of its contents."""
        return bytes_of(self.ending.result) + sum(bytes_of(submission.new.payload) for submission in self.next_tasks)


class FailedTry(msgspec.Struct, frozen=True):
    """A failed try: what it does if there are more, and if it was the last."""

    failing: store.Failing
    ending: store.Ending

    @property
    def id(self) -> UUID:
        """The task's id."""
        return self.ending.id


async def complete(connection: Connection, completions: Sequence[Completion], touching: set[Window]) -> Ends:
    """Complete tasks, submit what comes next, and open what waits for them."""
    endings = sorted((completion.ending for completion in completions), key=id_of)
    ended = await end(connection, endings, Phase.COMPLETED, with_dependents=True)
    others: list[Task] = []
    if next_tasks := [task for completion in completions if completion.id in ended for task in completion.next_tasks]:
        others += (await store.submit(connection, next_tasks)).values()
    return Ends(ended, others + await settle(connection, ended.values(), touching))


async def fail_with_dependents(connection: Connection, failures: Sequence[FailedTry], touching: set[Window]) -> Ends:
    """Use up an attempt of tasks that have more, end the others, and cancel what waits for those."""
    failed = await fail(connection, failures, with_dependents=True)
    ended = [task for task in failed.values() if task.phase is Phase.FAILED]
    return Ends(failed, await settle(connection, ended, touching))


async def fail(
    connection: Connection, failures: Sequence[FailedTry], *, with_dependents: bool = False
) -> dict[UUID, Task]:
    """Use up an attempt of tasks that have more, and end the others."""
    in_order = sorted(failures, key=id_of)
    failed: dict[UUID, Task] = {}
    if failing := [failure.failing for failure in in_order if failure.ending.if_spent]:
        failed = await store.fail(connection, failing)
    ended: dict[UUID, Task] = {}
    if ending := [failure.ending for failure in in_order if failure.id not in failed]:
        ended = await end(connection, ending, Phase.FAILED, with_dependents=with_dependents)
    return failed | ended


async def end(
    connection: Connection, endings: Sequence[store.Ending], phase: Phase, *, with_dependents: bool = False
) -> dict[UUID, Task]:
    """End tasks, each in the way that leads to this phase."""
    return await store.end(
        connection,
        endings,
        phase=phase,
        outcome=_OUTCOMES[phase],
        any_phase=phase is Phase.CANCELED,
        with_dependents=with_dependents,
    )
