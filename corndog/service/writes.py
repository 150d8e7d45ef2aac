"""The one way to write tasks: whatever a write has made ready is made known, and each lease that it ended is dropped.

It is told after the commit and before the answer. Should the process die in between, reconciling finds what was not
told.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import TypeAlias

from corndog.domain.errors import CorndogError, Unavailable
from corndog.domain.task import Phase, Task, Window
from corndog.hints.hints import Hints
from corndog.hints.link import Away
from corndog.service.polls import Polls
from corndog.store.engine import Connection, Database

Work: TypeAlias = Callable[[Connection], Awaitable[Sequence[Task]]]
"""Work that answers every task it has written."""


class Writes:
    """Runs work that writes tasks, and tells who is concerned: the windows, the claims that wait, the leases."""

    def __init__(self, database: Database, polls: Polls, hints: Hints | None) -> None:
        self._database = database
        self._polls = polls
        self._hints = hints

    async def run(
        self,
        work: Work,
        *,
        atomically: bool = False,
        touching: Collection[Window] = (),
    ) -> Sequence[Task]:
        """Run work, each statement by itself or all of them `atomically`.

        `touching` names the windows in which tasks may become ready, as far as they are known before: if the outcome
        of the commit stays unknown, those are forgotten.
        """
        run = self._database.transaction if atomically else self._database.run
        try:
            written = await run(work)
        except BaseException as error:
            if isinstance(error, Unavailable) or not isinstance(error, CorndogError):
                await self.doubt(touching)
            raise
        await self.tell(written)
        return written

    async def tell(self, written: Sequence[Task]) -> None:
        """Make known what has become of tasks."""
        ready = [task for task in written if task.phase is Phase.READY]
        numbers = Counter(task.window for task in ready)
        if self._hints:
            await self._offer(self._hints, ready, numbers)
            await self._drop_leases(self._hints, written)
        for window, number in numbers.items():
            self._polls.wake(window, number, "local")

    async def doubt(self, windows: Collection[Window]) -> None:
        """Forget windows in which tasks may have become ready unheard of."""
        if self._hints and windows:
            with suppress(Away):
                await self._hints.windows.forget(windows)

    async def _offer(self, hints: Hints, ready: Sequence[Task], numbers: Counter[Window]) -> None:
        if not ready:
            return
        messages: list[str | bytes] = []
        for window, number in numbers.items():
            if (left := number - len(self._polls.first(window, number))) > 0:
                messages += hints.wakeups.message(window, left)
        with suppress(Away):
            await hints.windows.offer([task.candidate for task in ready], messages)

    async def _drop_leases(self, hints: Hints, written: Sequence[Task]) -> None:
        if delivered := [task.id for task in written if task.delivery]:
            with suppress(Away):
                await hints.leases.drop(delivered)
