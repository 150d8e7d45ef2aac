"""Takes tasks through whole lives: submit, claim, complete; and sees that each was led once.

A way is how a client puts that together: a request for each step, a completion that carries the next claim, or many
tasks in each request. What doesn't depend on answers is prepared before the clock runs.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from corndog.bench.errors import BenchError
from corndog.bench.http import MINIMAL, Address, Line, Request
from corndog.bench.load import clocked, lines
from corndog.bench.tasks import Claimed, Held, claim, complete, complete_batch, delivery, submit_batch, submits

LINES = 16
"""Most connections of batches, each of which is a lot of work under way."""
_SUCCESSES = range(200, 300)


class Ledger(msgspec.Struct):
    """What was submitted, and what was completed."""

    submitted: list[str] = []
    completed: list[str] = []

    def verify(self, count: int) -> None:
        """See that each life was led once.

        Raises:
            BenchError: one was not.

        """
        once = set(self.completed)
        if not len(self.submitted) == len(self.completed) == len(once) == count or set(self.submitted) != once:
            raise BenchError(
                f"of {count} tasks {len(self.submitted)} were submitted, and {len(once)} were completed by "
                f"{len(self.completed)} completions: does someone else work on them?"
            )


class Way(ABC):
    """How the steps of lives become requests."""

    size = 1

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.claim = claim(queue, self.size)
        self.submit = submits(queue, 1)[0]

    @abstractmethod
    async def live(self, line: Line, turns: Iterator[object], asks: "Asks", ledger: Ledger) -> None:
        """Lead lives as long as there are turns, and then those that others have left in the queue."""


class Asks(msgspec.Struct):
    """The requests that never change, prepared."""

    submit: bytes
    claim: bytes


class Separate(Way):
    """A request for each step of each task."""

    async def live(self, line: Line, turns: Iterator[object], asks: Asks, ledger: Ledger) -> None:
        """Submit one, claim one, complete that."""
        for _ in turns:
            ledger.submitted.append(_decode(await line.ask(asks.submit), _Submitted).id)
            task = delivery(await line.ask(asks.claim))
            _see(_decode(await line.send(complete(task)), _Completed))
            ledger.completed.append(task.id)


class Carrying(Way):
    """Completions carry the next claim: two requests a life, or for many lives."""

    async def live(self, line: Line, turns: Iterator[object], asks: Asks, ledger: Ledger) -> None:
        """Submit some, complete what is held, and get the next."""
        held: Sequence[Held] = ()
        for _ in turns:
            ledger.submitted += self.read_submitted(await line.ask(asks.submit))
            held = await self._finish(line, held, ledger) if held else await self._claim(line, asks)
        while held or (held := await self._claim(line, asks)):
            held = await self._finish(line, held, ledger)

    def read_submitted(self, answer: bytes) -> list[str]:
        """Read which tasks were made."""
        return [_decode(answer, _Submitted).id]

    def complete(self, held: Sequence[Held]) -> Request:
        """Complete what is held, and claim the next."""
        request = complete(held[0])
        return request._replace(body=request.body[:-1] + b',"claim":' + self.claim.body + b"}")

    def read_completed(self, answer: bytes) -> "tuple[list[str], Claimed]":
        """Read which of many tasks were completed, and what was claimed; one task is known by its request."""
        found = _decode(answer, _Completed)
        _see(found)
        return [], found.claimed

    async def _claim(self, line: Line, asks: Asks) -> list[Held]:
        return _decode(await line.ask(asks.claim), Claimed).tasks

    async def _finish(self, line: Line, held: Sequence[Held], ledger: Ledger) -> list[Held]:
        completed, claimed = self.read_completed(await line.send(self.complete(held)))
        ledger.completed += completed or [held[0].id]
        return claimed.tasks


class Many(Carrying):
    """Many tasks in each request."""

    def __init__(self, queue: str, size: int) -> None:
        self.size = size
        super().__init__(queue)
        self.submit = submit_batch(queue, size)._replace(headers=MINIMAL)

    def read_submitted(self, answer: bytes) -> list[str]:
        """Read which tasks were made."""
        return [result.id for result in _decode(answer, _Results).results]

    def complete(self, held: Sequence[Held]) -> Request:
        """Complete all that is held, and claim the next."""
        return complete_batch(held, self.claim.body)

    def read_completed(self, answer: bytes) -> tuple[list[str], Claimed]:
        """Read which tasks were completed, and what was claimed."""
        found = _decode(answer, _Results)
        for result in found.results:
            _see(result)
        return [result.id for result in found.results], found.claimed


def way(name: str, queue: str) -> Way:
    """Find a way by its name: `separate`, `claiming`, or how many tasks a request has."""
    if name == "separate":
        return Separate(queue)
    return Carrying(queue) if name == "claiming" else Many(queue, int(name))


async def lead(address: Address, connections: int, way: Way, lives: int) -> tuple[float, float]:
    """Lead about so many lives, and verify them: how many a second, and the generator's share of a core."""
    calls = max(1, lives // way.size)
    ledger = Ledger()
    turns = iter(range(calls))
    asks = Asks(address.prepare(way.submit), address.prepare(way.claim))
    count = min(calls, connections if way.size == 1 else min(connections, LINES))
    async with lines(address, count) as ready:
        with clocked() as clock:
            await asyncio.gather(*(way.live(line, turns, asks, ledger) for line in ready))
    ledger.verify(calls * way.size)
    return calls * way.size / clock.seconds, clock.generator


async def can_complete_many(address: Address) -> bool:
    """Whether a server completes many tasks in one call: older ones don't."""
    async with lines(address, 1) as [line]:
        return "/v1/tasks/complete" in _decode(await line.send(Request("GET", "/openapi.json")), _Document).paths


class _Submitted(msgspec.Struct):
    id: str


class _Completed(msgspec.Struct):
    replayed: bool = False
    status: int = 200
    claimed: Claimed = msgspec.field(default_factory=lambda: Claimed([]))


class _Result(_Completed):
    id: str = ""


class _Results(msgspec.Struct):
    results: list[_Result]
    claimed: Claimed = msgspec.field(default_factory=lambda: Claimed([]))


class _Document(msgspec.Struct):
    paths: dict[str, object]


_T = TypeVar("_T")


def _decode(answer: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError as error:
        raise BenchError(f"the answer is not that of a corndog server of this version: {error}") from None


def _see(ended: _Completed) -> None:
    """See that a completion was the first, and a success."""
    if ended.replayed or ended.status not in _SUCCESSES:
        raise BenchError(f"a completion was answered with {ended.status}{', replayed' if ended.replayed else ''}")
