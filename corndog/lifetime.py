"""What goes on beside something else and ends with it, and what happens when the process is to end."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import FrameType
from typing import Any

_ENDS = (signal.SIGTERM, signal.SIGINT)


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run work beside the block, and cancel it at its end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@contextmanager
def begun_after(seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> Iterator[None]:
    """Begin work beside the block if it takes longer than so many seconds, and cancel it at its end."""
    begun: list[asyncio.Task[None]] = []
    timer = asyncio.get_running_loop().call_later(seconds, lambda: begun.append(asyncio.create_task(work())))
    try:
        yield
    finally:
        timer.cancel()
        for task in begun:
            task.cancel()


@contextmanager
def on_end(react: Callable[[], None]) -> Iterator[None]:
    """React in this loop as soon as the process is told to end, besides what its server does then."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    loop = asyncio.get_running_loop()
    before = {way: signal.getsignal(way) for way in _ENDS}

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(react)
        if callable(previous := before[signal.Signals(number)]):
            previous(number, frame)

    for way in _ENDS:
        signal.signal(way, handle)
    try:
        yield
    finally:
        for way, previous in before.items():
            signal.signal(way, previous)
