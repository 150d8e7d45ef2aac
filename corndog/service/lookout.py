"""Looking out for tasks on behalf of the claims that wait: one look for all of them, instead of one each."""

import asyncio
import logging
import random
from collections.abc import Collection, Sequence
from contextlib import suppress
from time import monotonic

from corndog.domain.task import Window
from corndog.hints.hints import Hints
from corndog.hints.link import Away
from corndog.service.polls import Polls

logger = logging.getLogger(__name__)

_INTERVAL = (1.0, 2.0)
"""Seconds between two looks: at random, so that servers don't look in step."""

_MOMENT = 0.02

_LINGER = 10.0
"""Seconds that a window is still listened to after the last claim that waited there."""


class Lookout:
    """Wakes polls when other servers say that there are tasks, and every second or two in case nobody said so."""

    def __init__(self, polls: Polls, hints: Hints | None) -> None:
        self._polls = polls
        self._hints = hints
        self._last_waited_for: dict[Window, float] = {}

    async def run(self) -> None:
        """Look out until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_again_and_again())
            if self._hints:
                group.create_task(self._listen(self._hints))

    async def _listen(self, hints: Hints) -> None:
        while True:
            try:
                async for window, number in hints.wakeups.messages():
                    self._polls.wake(window, number, "published")
            except Exception:
                logger.exception("listening to other servers failed; trying again")
                await asyncio.sleep(_LINGER)

    async def _look_again_and_again(self) -> None:
        due = monotonic()
        while True:
            await self._new_windows(due - monotonic())
            if is_due := monotonic() >= due:
                due = monotonic() + random.uniform(*_INTERVAL)
            windows = self._polls.waited_for()
            try:
                if self._hints:
                    # First listen, then look: what became ready before is found, and of what comes after it hears.
                    new = await self._follow(self._hints, windows)
                    await self._look(self._hints, windows if is_due else new)
                elif is_due:
                    self._try(windows)
            except Away:
                if is_due:
                    self._try(windows)
            except Exception:
                logger.exception("looking out for tasks failed; trying again")

    async def _new_windows(self, seconds: float) -> None:
        """Wait so long, or until claims wait where none did before: all of those that come within a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._polls.has_new_windows.wait()
                await asyncio.sleep(_MOMENT)
        self._polls.has_new_windows.clear()

    async def _follow(self, hints: Hints, windows: Collection[Window]) -> list[Window]:
        """Listen to these windows; answers those that were not listened to before."""
        now = monotonic()
        new = [window for window in windows if window not in self._last_waited_for]
        self._last_waited_for |= dict.fromkeys(windows, now)
        self._last_waited_for = {w: last for w, last in self._last_waited_for.items() if now - last < _LINGER}
        await hints.wakeups.follow(self._last_waited_for)
        return new

    async def _look(self, hints: Hints, windows: Sequence[Window]) -> None:
        if not windows:
            return
        for window, number in zip(windows, await hints.windows.peek(windows), strict=True):
            if number is None:
                self._polls.wake(window, 1, "look", leads=True)
            else:
                self._polls.wake(window, number, "look")

    def _try(self, windows: Collection[Window]) -> None:
        """Have one poll of each window search the database."""
        for window in windows:
            self._polls.wake(window, 1, "look", leads=True)
