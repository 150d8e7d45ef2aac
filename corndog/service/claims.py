"""The use case of pulling tasks, and of waiting for them."""

import asyncio
from time import monotonic

from corndog.domain.listing import Entry
from corndog.domain.task import Claim
from corndog.service.finding import Find
from corndog.service.polls import Caller, Polls, WakeUp
from corndog.service.reading import Reading
from corndog.service.statuses import Statuses
from corndog.service.tasks import Tasks


class Claims:
    """Hands tasks out."""

    def __init__(self, find: Find, tasks: Tasks, polls: Polls, reading: Reading, statuses: Statuses) -> None:
        self._find = find
        self._tasks = tasks
        self._polls = polls
        self._reading = reading
        self._statuses = statuses

    async def claim(
        self, claim: Claim, wait: float = 0, caller: Caller | None = None, *, with_dependencies: bool = False
    ) -> list[Entry]:
        """Claim up to `count` tasks: of all queues the best priority, then the oldest. Empty if nothing is ready.

        It waits so many seconds for the first. A caller who hangs up while it waits gets nothing; the tasks of one who
        has hung up since are given back at once.
        """
        caller = caller or Caller()
        entries = await (self._wait(claim, wait, caller) if wait else self._find(claim))
        tasks = [entry.task for entry in entries]
        self._statuses.note_claimed(tasks)
        if entries and with_dependencies and not caller.is_gone:
            try:
                entries = await self._reading.with_dependencies(entries)
            except Exception:
                await asyncio.shield(self._tasks.give_back(tasks))
                raise
        if entries and caller.is_gone:
            await self._tasks.give_back(tasks)
            return []
        return entries

    async def _wait(self, claim: Claim, wait: float, caller: Caller) -> list[Entry]:
        until = monotonic() + wait
        woken: WakeUp | None = None
        with self._polls.joined(claim.windows) as poll, caller.ending(poll):
            while not poll.is_over:
                if entries := await self._find(claim):
                    if woken and woken.leads:
                        self._polls.wake(woken.window, 1, "chain", leads=True)
                    return entries
                if (left := until - monotonic()) <= 0:
                    break
                await poll.nudged(left)
                if not poll.is_over:
                    woken = poll.rearm()
        return []
