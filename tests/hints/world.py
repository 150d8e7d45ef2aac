"""Servers on one database and one Redis, step by step; and what may be demanded of what they find.

The database is a dict with the guards of the real statements; the windows are the real ones. Each operation of a
server is cut wherever another may come in between, and a server may die there.

A hint may be wrong at any time; none may be missing without a reason. So each ready task is accounted for: it is in
its window, or beyond the window's edge, or in hand (an operation has popped it or made it ready, and will claim it,
offer it, or forget the window), or it was lost: its server died with it in hand, or Redis went back in time. What was
lost may stay hidden until a refill counts that read later, or the window is forgotten, and no longer.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID, uuid4

import msgspec

from corndog.domain.task import Candidate, Order, Phase, Window
from corndog.hints.link import Link
from corndog.hints.windows import Taken, Windows, _member
from tests.hints.places import order

WINDOWS = (Window("q", "a"), Window("q", "b"))
KINDS = ("W", "E", "R", "L")
ROUNDS = 100
"""More looks than it can take to claim everything."""

Steps: TypeAlias = AsyncIterator[None]


class Broken(AssertionError):
    """The protocol does not keep what it promises."""


class Fate(Enum):
    """What becomes of a call to Redis. Unless it is answered, the server forgets the windows that it touched."""

    ANSWERED = "answered"
    UNSENT = "never arrived"
    UNANSWERED = "carried out, and the answer was lost"


class Flaws(NamedTuple):
    """What the servers do wrong, to see whether it is noticed."""

    ignore_rank: bool = False
    keep_unused: bool = False
    never_forget: bool = False


class Row(msgspec.Struct):
    """A task as the database has it."""

    candidate: Candidate
    phase: Phase = Phase.READY


class Operation:
    """What a server is doing, and the hints that it alone accounts for meanwhile."""

    def __init__(self, server: int, run: Callable[["Operation"], Steps]) -> None:
        self.server = server
        self.hand: set[Candidate] = set()
        self.steps = run(self)


class World:
    """The database, Redis, and what the servers are doing."""

    def __init__(self, link: Link, windows: Windows, flaws: Flaws) -> None:
        self.operations: list[Operation] = []
        self._redis = link.client
        self._keys = windows._keys(WINDOWS, *KINDS)
        self._windows = windows
        self._flaws = flaws
        self._rows: dict[UUID, Row] = {}
        self._lost: dict[Candidate, int] = {}
        self._now = 0
        self._backup: dict[str, tuple[int, bytes]] = {}

    # The database ------------------------------------------------------------

    def number_of_tasks(self) -> int:
        return len(self._rows)

    def some_task(self, number: int, phase: Phase) -> Row | None:
        """Find a task in this phase."""
        rows = [row for row in self._rows.values() if row.phase is phase]
        return rows[number % len(rows)] if rows else None

    def ready(self, windows: Collection[Window]) -> set[Candidate]:
        ready = (row.candidate for row in self._rows.values() if row.phase is Phase.READY)
        return {candidate for candidate in ready if candidate.window in windows}

    def _is_ready(self, hint: Candidate) -> bool:
        row = self._rows[hint.id]
        is_there = row.candidate.window == hint.window and (self._flaws.ignore_rank or row.candidate.rank == hint.rank)
        return is_there and row.phase is Phase.READY

    def _claim_by_key(self, hints: Sequence[Candidate], passed: Collection[Candidate]) -> list[Candidate]:
        claimed = []
        for hint in hints:
            if self._is_ready(hint):
                row = self._rows[hint.id]
                if any(other.order < row.candidate.order for other in self.ready(WINDOWS) & set(passed)):
                    raise Broken(f"{row.candidate} is handed out before {passed}")
                row.phase = Phase.HELD
                claimed.append(row.candidate)
        return claimed

    # What servers do -----------------------------------------------------------

    async def begin(self, server: int, run: Callable[[Operation], Steps], pace: int) -> None:
        """Have a server do the first steps of something."""
        operation = Operation(server, run)
        self.operations.append(operation)
        await self.advance(operation, pace)

    async def advance(self, operation: Operation, steps: int) -> None:
        for _ in range(steps):
            self._now += 1
            try:
                await anext(operation.steps)
            except StopAsyncIteration:
                self.operations.remove(operation)
                return

    async def submit(self, operation: Operation, window: Window, ranks: Sequence[int], fate: Fate) -> Steps:
        for rank in ranks:
            candidate = Candidate(window, order(len(self._rows) + 1, rank))
            self._rows[candidate.id] = Row(candidate)
            operation.hand.add(candidate)
        yield
        async for _ in self._offer(operation, fate):
            yield

    async def make_ready(self, operation: Operation, row: Row, place: tuple[Window, int], fate: Fate) -> Steps:
        """Give a held task back, or move a ready one, to some window and rank."""
        window, rank = place
        row.phase = Phase.READY
        row.candidate = Candidate(window, (rank, *row.candidate.order[1:]))
        operation.hand.add(row.candidate)
        yield
        async for _ in self._offer(operation, fate):
            yield

    async def claim(
        self, operation: Operation, windows: Sequence[Window], count: int, locked: int, fates: tuple[Fate, Fate]
    ) -> Steps:
        """Take and claim once. Of what is popped, others have locked the first few."""
        taking, giving_back = fates
        passed: set[Candidate] = set()
        popped: list[Candidate] = []
        if taking is not Fate.UNSENT:
            taken = await self._windows.take(windows, count)
            passed = self._passed(windows, count, taken)
            popped = taken.candidates
            operation.hand.update(popped)
        yield
        if taking is not Fate.ANSWERED:
            await self._forget(operation, windows)
            return
        claimed = {hint.id for hint in self._claim_by_key(popped[locked:], passed)}
        operation.hand -= {hint for hint in popped if hint.id in claimed}
        yield
        operation.hand -= {hint for hint in popped if not self._is_ready(hint)}
        yield
        if self._flaws.keep_unused:
            operation.hand.clear()
        async for _ in self._offer(operation, giving_back):
            yield

    async def refill(self, _operation: Operation, windows: Sequence[Window], limit: int) -> Steps:
        token = uuid4().hex
        begun = await self._windows.begin(windows, token)
        yield
        read = self._now
        found = {refill: self._heads(refill.window, refill.after, limit) for refill in begun}
        yield
        counted = await self._windows.finish(token, found, limit) if begun else []
        for refill in begun:
            if refill.window in counted:
                lost = {hint for hint, since in self._lost.items() if hint.window == refill.window and since < read}
                self._find({hint for hint in lost if refill.after is None or hint.order > refill.after})

    async def reconcile(self, _operation: Operation, limit: int) -> Steps:
        windows = {hint.window for hint in self.ready(WINDOWS)}
        yield
        heads = [Candidate(window, order) for window in windows for order in self._heads(window, None, limit)]
        yield
        if heads:
            await self._windows.offer(heads, heads_of=limit)
            self._find(heads)

    def _heads(self, window: Window, after: Order | None, limit: int) -> list[Order]:
        orders = sorted(hint.order for hint in self.ready([window]))
        return [order for order in orders if after is None or order > after][:limit]

    async def _offer(self, operation: Operation, fate: Fate) -> Steps:
        if not operation.hand:
            return
        if fate is not Fate.UNSENT:
            await self._windows.offer(operation.hand)
        if fate is Fate.ANSWERED:
            self._find(operation.hand)
            operation.hand.clear()
        else:
            yield
            await self._forget(operation, {hint.window for hint in operation.hand})

    async def _forget(self, operation: Operation, windows: Collection[Window]) -> None:
        if not self._flaws.never_forget:
            await self._windows.forget(windows)
            self._find({hint for hint in self._lost if hint.window in windows})
        operation.hand.clear()

    # What goes wrong -------------------------------------------------------------

    def crash(self, server: int) -> None:
        dying = [operation for operation in self.operations if operation.server == server]
        self._lose({hint for operation in dying for hint in operation.hand})
        self.operations = [operation for operation in self.operations if operation.server != server]

    async def flush(self) -> None:
        await self._redis.unlink(*self._keys)
        self._find(set(self._lost))

    async def expire(self, kind: str) -> None:
        """Let the keys of a kind end as their time would: of a refill's mark, or of an edge."""
        await self._redis.unlink(*self._keys[KINDS.index(kind) :: len(KINDS)])

    async def save(self) -> None:
        """Keep what is in Redis, for it to go back to."""
        self._backup = {
            key: (await self._redis.pttl(key), dump) for key in self._keys if (dump := await self._redis.dump(key))
        }

    async def rewind(self) -> None:
        """Have Redis as it once was: what fails over may lose its last seconds."""
        await self._redis.unlink(*self._keys)
        for key, (life, dump) in self._backup.items():
            await self._redis.restore(key, life, dump)
        self._lose(self.ready(WINDOWS))

    def _lose(self, hints: Collection[Candidate]) -> None:
        self._now += 1
        self._lost |= dict.fromkeys(hints, self._now)

    def _find(self, hints: Collection[Candidate]) -> None:
        for hint in hints:
            self._lost.pop(hint, None)

    # What is demanded --------------------------------------------------------------

    def _passed(self, windows: Collection[Window], count: int, taken: Taken) -> set[Candidate]:
        """Judge a take. Answers the ready tasks that it left in the windows, or beyond their edges."""
        orders = [hint.order for hint in taken.candidates]
        if orders != sorted(orders) or len(set(taken.candidates)) != len(orders) or len(orders) > count:
            raise Broken(f"these are not the first {count}: {orders}")
        passed = self._unheld(windows) - set(taken.candidates)
        if orders and any(hint.order < orders[-1] for hint in passed):
            raise Broken(f"{orders} are taken before {passed}")
        if passed and len(orders) < count and not taken.lacking:
            raise Broken(f"nothing more is said to be there than {orders}, and there is {passed}")
        return passed

    def _unheld(self, windows: Collection[Window]) -> set[Candidate]:
        """List the ready tasks that nothing excuses from being found."""
        in_hand = {hint for operation in self.operations for hint in operation.hand}
        return self.ready(windows) - in_hand - set(self._lost)

    async def look(self) -> None:
        """Judge what is in Redis: up to its edge, a window holds every task that it has no excuse to miss."""
        pipeline = self._redis.pipeline(transaction=False)
        for window in WINDOWS:
            held, edge = self._windows._keys([window], "W", "E")
            pipeline.zrange(held, 0, -1)
            pipeline.get(edge)
        answers = await pipeline.execute()
        numbers = await self._windows.peek(WINDOWS)
        for window, members, edge, number in zip(WINDOWS, answers[::2], answers[1::2], numbers, strict=True):
            there = self._unheld([window])
            if (
                edge
                and (missed := {_member(hint.order).encode() for hint in there} - set(members))
                and min(missed) <= edge
            ):
                raise Broken(f"{window} lacks {min(missed)!r}")
            if number == 0 and there:
                raise Broken(f"{window} is said to be empty, and there is {there}")

    async def settle(self, count: int, limit: int) -> None:
        """Once all is quiet, reconcile, and claim everything: each task once, and all in order."""
        for operation in list(self.operations):
            await self.advance(operation, ROUNDS)
        await self.expire("R")
        expected = sorted(self.ready(WINDOWS), key=lambda hint: hint.order)
        await self.begin(0, lambda operation: self.reconcile(operation, limit), ROUNDS)
        self._lost.clear()
        claimed = [hint async for hint in self._claim_all(count)]
        if claimed != expected:
            raise Broken(f"{claimed} are claimed, and ready were {expected}")

    async def _claim_all(self, count: int) -> AsyncIterator[Candidate]:
        for _ in range(ROUNDS):
            taken = await self._windows.take(WINDOWS, count)
            passed = self._passed(WINDOWS, count, taken)
            for hint in self._claim_by_key(taken.candidates, passed):
                yield hint
            if taken.lacking:
                await self._refill(taken.lacking, self._windows.size)
            elif len(taken.candidates) < count:
                return
        raise Broken("there is no end to it")

    async def _refill(self, windows: Collection[Window], limit: int) -> None:
        await self.begin(0, lambda operation: self.refill(operation, list(windows), limit), ROUNDS)
