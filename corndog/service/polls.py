"""Long polls: the claims that wait, and who of them is woken.

A poll is one waiting claim; it stands in line at each window that it looks at. When n tasks become ready, the n polls
that have waited longest are woken, and look. A poll that is woken and does not look, since its client has gone or it
has got a task already, passes the wake-up on.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from corndog.domain.task import Window
from corndog.observability import metrics


class WakeUp(NamedTuple):
    """Why a poll was woken: there may be a task in a window. If it `leads`, there may be more: it wakes the next."""

    window: Window
    leads: bool


class Poll:
    """One waiting claim."""

    def __init__(self, windows: Collection[Window]) -> None:
        self.windows = windows
        self.is_over = False
        self.woken: WakeUp | None = None
        self._nudge = asyncio.Event()

    def wake(self, why: WakeUp) -> None:
        """Have it look."""
        self.woken = why
        self._nudge.set()

    def end(self) -> None:
        """Have it look no more: its client has gone, or the server stops."""
        self.is_over = True
        self._nudge.set()

    async def nudged(self, seconds: float) -> None:
        """Wait until it is woken or ended, or so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._nudge.wait()
        except TimeoutError:
            pass

    def rearm(self) -> WakeUp | None:
        """Wait for the next wake-up, and answer the last one."""
        woken, self.woken = self.woken, None
        if not self.is_over:
            self._nudge.clear()
        return woken


class Caller:
    """Whoever asked, and may hang up before there is an answer."""

    def __init__(self) -> None:
        self.is_gone = False
        self._end: Callable[[], None] | None = None

    def hang_up(self) -> None:
        """Say that nobody waits for the answer any more."""
        self.is_gone = True
        if self._end:
            self._end()

    @contextmanager
    def ending(self, poll: Poll) -> Iterator[None]:
        """End a poll when the caller hangs up."""
        self._end = poll.end
        if self.is_gone:
            poll.end()
        try:
            yield
        finally:
            self._end = None


class Polls:
    """All long polls of this process."""

    def __init__(self) -> None:
        self.has_new_windows = asyncio.Event()
        self._lines: dict[Window, dict[Poll, None]] = {}
        self._all: set[Poll] = set()
        self._is_closed = False

    @contextmanager
    def joined(self, windows: Collection[Window]) -> Iterator[Poll]:
        """Stand in line at these windows, until the end of the block."""
        poll = Poll(windows)
        if self._is_closed:
            poll.end()
        self._all.add(poll)
        self.line_up(poll)
        try:
            yield poll
        finally:
            self._all.discard(poll)
            self._leave(poll)
            if poll.woken:
                self.wake(poll.woken.window, 1, "passed on", leads=poll.woken.leads)

    def line_up(self, poll: Poll) -> WakeUp | None:
        """Stand in line (again), before a look: what becomes ready during the look is heard of. Tells what woke it."""
        woken = poll.rearm()
        for window in poll.windows:
            if window not in self._lines:
                self._lines[window] = {}
                self.has_new_windows.set()
            self._lines[window][poll] = None
        return woken

    def waited_for(self) -> list[Window]:
        """List the windows in which polls wait."""
        return list(self._lines)

    def number_at(self, window: Window) -> int:
        """Tell how many polls wait in a window."""
        return len(self._lines.get(window, ()))

    def wake(self, window: Window, number: int, source: str, *, leads: bool = False) -> None:
        """Wake the polls that have waited longest in a window."""
        first = list(islice(self._lines.get(window, ()), number))
        for poll in first:
            self._leave(poll)
            poll.wake(WakeUp(window, leads))
        if first:
            metrics.WAKE_UPS.labels(source).inc(len(first))

    def close(self) -> None:
        """Answer all polls now, and those that are yet to come at once."""
        self._is_closed = True
        for poll in self._all:
            poll.end()

    def _leave(self, poll: Poll) -> None:
        for window in poll.windows:
            if line := self._lines.get(window):
                line.pop(poll, None)
                if not line:
                    del self._lines[window]
