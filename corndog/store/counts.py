"""One function for each statement that keeps the counts of live tasks in order.

Every statement that moves tasks writes the differences that it makes (`sql/fragments/count_….sql`); here they are
folded into totals. All of it can be run again after a lost connection: what is folded is gone.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from corndog.store.engine import Connection
from corndog.store.statements import load


class Correction(msgspec.Struct, frozen=True):
    """By how much the count of a queue and state was wrong."""

    queue: str
    current_state: str
    tasks: int


async def fold(connection: Connection, batch: int, *, at_least: int = 1, everywhere: bool = False) -> int:
    """Fold a batch of differences into the totals, if there are enough, and tell how many there were.

    `everywhere`: those below the floor, too, where none should be.
    """
    number: int | None = await connection.fetchval(load("fold_counts"), batch, at_least, everywhere)
    return number or 0


async def raise_floor(connection: Connection, longest: timedelta) -> None:
    """Let reads pass by differences older than the longest transaction, if all of them are folded."""
    await connection.fetch(load("raise_count_floor"), longest)


async def drop_zeros(connection: Connection) -> None:
    """Delete totals of zero."""
    await connection.fetch(load("drop_zero_counts"))


async def lock_recount(connection: Connection) -> None:
    """Take the right to correct the counts, for this transaction."""
    await connection.fetch(load("lock_recount"))


async def wrong(connection: Connection) -> list[Correction]:
    """Compare all live tasks with their counts; what is answered is to be added to the latter."""
    return [Correction(*row) for row in await connection.fetch(load("wrong_counts"))]


async def correct(connection: Connection, corrections: Sequence[Correction]) -> None:
    """Add corrections to the counts."""
    await connection.fetch(
        load("correct_counts"),
        [correction.queue for correction in corrections],
        [correction.current_state for correction in corrections],
        [correction.tasks for correction in corrections],
    )
