"""News of tasks: whatever a write has made ready is made known, and each lease that it ended is dropped.

It is told after the commit and before the answer. Should the process die in between, reconciling finds what was not
told.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from corndog.domain.task import Candidate, Phase, Task, Window
from corndog.hints.hints import Hints
from corndog.hints.link import Away
from corndog.service.polls import Polls
from corndog.service.statuses import Statuses


class News:
    """Tells who is concerned: windows, claims that wait, leases, jobs."""

    def __init__(self, polls: Polls, hints: Hints | None, statuses: Statuses) -> None:
        self._polls = polls
        self._hints = hints
        self._statuses = statuses

    async def tell(self, written: Sequence[Task]) -> None:
        """Make known what has become of tasks."""
        self._statuses.note_written(written)
        ready = [task.candidate for task in ready_among(written)]
        numbers = Counter(candidate.window for candidate in ready)
        if self._hints:
            await self._offer(self._hints, ready, numbers)
            await self._drop_leases(self._hints, written)
        self._wake(numbers)

    async def make_known(self, ready: Sequence[Candidate]) -> None:
        """Make known that tasks are ready, of which nothing else has changed that anybody must hear of."""
        numbers = Counter(candidate.window for candidate in ready)
        if self._hints:
            await self._offer(self._hints, ready, numbers)
        self._wake(numbers)

    async def doubt(self, windows: Collection[Window]) -> None:
        """Forget windows in which tasks may have become ready unheard of."""
        if self._hints and windows:
            with suppress(Away):
                await self._hints.windows.forget(windows)

    def _wake(self, numbers: Mapping[Window, int]) -> None:
        for window, number in numbers.items():
            self._polls.wake(window, number, "local")

    async def _offer(self, hints: Hints, ready: Sequence[Candidate], numbers: Mapping[Window, int]) -> None:
        if not ready:
            return
        messages: list[str | bytes] = []
        for window, number in numbers.items():
            if (left := number - len(self._polls.first(window, number))) > 0:
                messages += hints.wakeups.message(window, left)
        with suppress(Away):
            await hints.windows.offer(ready, messages)

    async def _drop_leases(self, hints: Hints, written: Sequence[Task]) -> None:
        if delivered := [task.id for task in written if task.delivery]:
            with suppress(Away):
                await hints.leases.drop(delivered)


def ready_among(tasks: Iterable[Task]) -> list[Task]:
    """Choose what a repeat is to make known: the process that made it may have died before it told anybody."""
    return [task for task in tasks if task.phase is Phase.READY]
