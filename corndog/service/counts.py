"""The use cases that keep counts: folding what writes have added to them, and correcting what is wrong."""

from time import monotonic

from corndog.store import counts as store
from corndog.store.counts import Correction
from corndog.store.engine import Connection, Database

BATCH = 5000
"""How many differences are folded together, and as soon as there are so many: a read sums up those that are not."""

PATIENCE = 10.0
"""Seconds after which fewer are folded, too. Each fold leaves a dead row of every total that it changes."""

TIDYING = 300.0
"""Seconds between two looks at what needs no looking after: totals of zero, and differences below the floor."""


class Counts:
    """Keeps the counts of live tasks right, and cheap to read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next_fold = self._next_tidying = 0.0

    async def fold(self) -> int:
        """Fold differences if there are many or it has been a while, and tell how many."""
        now = monotonic()
        if now < self._next_fold:
            return await self._fold(at_least=BATCH)
        if tidies := now >= self._next_tidying:
            self._next_tidying = now + TIDYING  # even if it fails: what is due each time goes on
        folded = await self._fold(everywhere=tidies)
        longest = self._database.longest_transaction
        await self._database.run(lambda connection: store.raise_floor(connection, longest))
        if tidies:
            await self._database.run(store.drop_zeros)
        self._next_fold = now + PATIENCE
        return folded

    async def recount(self) -> list[Correction]:
        """Compare all live tasks with the counts, which no other statement does, and correct these.

        The correction is written by a statement of its own: it bears that one's time, however long the count has taken.
        """

        async def work(connection: Connection) -> list[Correction]:
            await store.lock_recount(connection)
            corrections = await store.wrong(connection)
            if corrections:
                await store.correct(connection, corrections)
            return corrections

        return await self._database.transaction(work)

    async def _fold(self, *, at_least: int = 1, everywhere: bool = False) -> int:
        total = 0
        while True:
            number = await self._database.run(
                lambda connection: store.fold(connection, BATCH, at_least=at_least, everywhere=everywhere)
            )
            total += number
            if number < BATCH:
                return total
