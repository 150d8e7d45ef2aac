"""Load: as many requests as a server answers, or so many a second whether it answers them or not."""

import asyncio
import gc
import resource
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any, NamedTuple

import msgspec

from corndog.bench.errors import BenchError
from corndog.bench.http import Address, Line, Request


class Clock(msgspec.Struct):
    """How long something took, and how much of a core the load generator used meanwhile."""

    seconds: float = 0.0
    generator: float = 0.0


class Rate(NamedTuple):
    """How many requests were answered a second, what was kept of the answers, and the generator's share of a core."""

    per_second: float
    kept: list[Any]
    generator: float


@contextmanager
def clocked() -> Iterator[Clock]:
    """Take the time of the block, in which no garbage is collected."""
    clock = Clock()
    gc.collect()
    gc.disable()
    began, used = perf_counter(), process_time()
    try:
        yield clock
    finally:
        clock.seconds = perf_counter() - began
        clock.generator = (process_time() - used) / clock.seconds
        gc.enable()


@asynccontextmanager
async def lines(address: Address, count: int) -> AsyncIterator[list[Line]]:
    """Keep some connections for the time of the block."""
    opened: list[Line] = []
    try:
        for _ in range(count):
            opened.append(await Line.to(address))  # noqa: PERF401 - those opened are closed, whatever happens
        yield opened
    finally:
        for line in opened:
            line.close()


async def rate(
    address: Address, connections: int, requests: Sequence[Request], keep: Callable[[bytes], Any] | None = None
) -> Rate:
    """Send all requests as fast as they are answered; what is kept of an answer is read when the clock has stopped."""
    waiting = iter(_prepare(address, requests))
    answers: list[bytes] = []
    async with lines(address, min(connections, len(requests))) as ready:
        with clocked() as clock:
            await asyncio.gather(*(line.pump(waiting, answers.append if keep else _drop) for line in ready))
    return Rate(len(requests) / clock.seconds, [keep(answer) for answer in answers] if keep else [], clock.generator)


class Paced(NamedTuple):
    """How late each answer was after the time at which its request was due, in order of size, and what was kept."""

    seconds: list[float]
    kept: list[Any]
    generator: float


async def paced(
    address: Address,
    connections: int,
    requests: Sequence[Request],
    per_second: float,
    keep: Callable[[bytes], Any] | None = None,
) -> Paced:
    """Send requests at a fixed pace. One that has to wait for a connection is late from when it was due."""
    ready = _prepare(address, requests)
    due: deque[float] = deque()
    waiting = iter(ready)
    late: list[float] = []
    answers: list[bytes] = []
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    async with lines(address, min(connections, len(requests))) as idle:
        free = list(idle)

        def come(time: float) -> None:
            due.append(time)
            if free:
                go(free.pop())

        def go(line: Line) -> None:
            time = due.popleft()

            def take(body: bytes) -> None:
                late.append(perf_counter() - time)
                if keep:
                    answers.append(body)
                if due:
                    go(line)
                else:
                    free.append(line)
                if len(late) == len(ready) and not done.done():
                    done.set_result(None)

            line.start(next(waiting), take, fail)

        def fail(error: BenchError) -> None:
            if not done.done():
                done.set_exception(error)

        with clocked() as clock, _beats(loop, come, len(ready), per_second):
            await done
    return Paced(sorted(late), [keep(answer) for answer in answers] if keep else [], clock.generator)


@contextmanager
def _beats(
    loop: asyncio.AbstractEventLoop, come: Callable[[float], None], count: int, per_second: float
) -> Iterator[None]:
    """Call `come` with each time that is due, from a thread: a loop's own timers know whole milliseconds only."""
    stop = Event()
    began = perf_counter()

    def beat() -> None:
        for place in range(count):
            time = began + place / per_second
            if stop.wait(max(0.0, time - perf_counter())):
                return
            loop.call_soon_threadsafe(come, time)

    thread = Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _prepare(address: Address, requests: Sequence[Request]) -> list[bytes]:
    """Prepare requests; those that are the same one many times are prepared once."""
    known: dict[int, bytes] = {}
    for request in requests:
        if id(request) not in known:
            known[id(request)] = address.prepare(request)
    return [known[id(request)] for request in requests]


def _drop(_: bytes) -> None:
    """Look at no answer."""


def allow_connections() -> None:
    """Raise the limit of open files as far as may be: each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS says "unlimited", and means less
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
