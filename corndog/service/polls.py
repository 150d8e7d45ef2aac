"""Long polls: the claims that wait, and who of them is woken.

A poll is one waiting claim; it stands in line at each window that it looks at, and keeps its place until it is
answered. When n tasks become ready, the n polls that have waited longest are woken, and look. A poll that is woken and
does not look, since its client has gone or it has got a task already, passes the wake-up on.
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
        """Get ready for the next wake-up, before a look: what becomes ready meanwhile is heard of. Answers the last."""
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
        for window in windows:
            if window not in self._lines:
                self._lines[window] = {}
                self.has_new_windows.set()
            self._lines[window][poll] = None
        try:
            yield poll
        finally:
            self._all.discard(poll)
            for window in windows:
                del self._lines[window][poll]
                if not self._lines[window]:
                    del self._lines[window]
            if poll.woken:
                self.wake(poll.woken.window, 1, "passed on", leads=poll.woken.leads)

    def waited_for(self) -> list[Window]:
        """List the windows in which polls wait."""
        return list(self._lines)

    def first(self, window: Window, number: int) -> list[Poll]:
        """Give the polls that have waited longest in a window, of those that have not been woken already."""
        return list(islice((poll for poll in self._lines.get(window, ()) if not poll.woken), number))

    def wake(self, window: Window, number: int, source: str, *, leads: bool = False) -> None:
        """Wake the polls that have waited longest in a window."""
        woken = self.first(window, number)
        for poll in woken:
            poll.wake(WakeUp(window, leads))
        if woken:
            metrics.WAKE_UPS.labels(source).inc(len(woken))

    def close(self) -> None:
        """Answer all polls now, and those that are yet to come at once."""
        self._is_closed = True
        for poll in self._all:
            poll.end()
