"""How a claim finds tasks: by the hints of Redis, or by searching the database, in the way that suits its kind."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

import msgspec

from corndog.domain.errors import Unavailable
from corndog.domain.listing import Entry
from corndog.domain.task import Candidate, Claim, Task, Window
from corndog.hints.link import Away
from corndog.hints.windows import Taken, Windows
from corndog.observability import metrics
from corndog.service.groups import GROUP_SIZE, Group
from corndog.service.ids import NewId
from corndog.service.refills import Refills
from corndog.store import claims as store
from corndog.store.engine import Connection, Database

Find: TypeAlias = Callable[[Claim], Awaitable[list[Entry]]]
"""Finds up to `count` tasks and claims them; answers them in claim order."""


GiveBack: TypeAlias = Callable[[Sequence[Task]], Awaitable[object]]
"""Releases tasks that nobody works on."""


class Statement(Protocol):
    """A statement that claims."""

    async def __call__(self, connection: Connection, *, default_timeout: timedelta) -> store.Handed: ...  # noqa: D102


class _ByKey(NamedTuple):
    ask: store.Ask
    candidates: Sequence[Candidate]


class _Pop(NamedTuple):
    windows: tuple[Window, ...]
    number: int


_ROUNDS = 10
"""How often a claim looks again when others took what it had seen."""

_PATIENCE = 0.5
"""Seconds that a claim waits for another process's refill before it searches the database."""

_MISSES = 32
"""How often in a row a window may mislead a claim before it is refilled; and then again before it is given up."""

_PAUSE = 0.01
"""Seconds between two looks whether another process's refill is done, at most."""


class HandOut:
    """Runs claiming statements. One whose answer was lost finds what it has claimed by its token."""

    def __init__(
        self,
        database: Database,
        new_id: NewId,
        default_timeout: timedelta,
        give_back: GiveBack,
        group_size: int = GROUP_SIZE,
    ) -> None:
        self._database = database
        self._new_id = new_id
        self._default_timeout = default_timeout
        self._give_back = give_back
        self._scan = Group(
            "claim-by-scan",
            self._scan_all,
            size=group_size,
            alike=lambda ask: ask.claim.windows,
            take_back=self._take_back,
        )
        self._claim = Group("claim", self._claim_all, size=group_size, take_back=self._take_back)

    async def by_scan(self, claim: Claim, count: int) -> list[Entry]:
        """Claim the first tasks that nobody has locked."""
        return await self._scan(store.Ask(claim, count, self._new_id()))

    async def by_key(self, claim: Claim, candidates: Sequence[Candidate]) -> list[Entry]:
        """Claim these tasks, as far as they can still be had."""
        return await self._claim(_ByKey(store.Ask(claim, len(candidates), self._new_id()), candidates))

    async def heads(self, claim: Claim, count: int) -> list[Candidate]:
        """Read the first ready tasks over all windows of a claim."""
        return await self._database.run(
            lambda connection: store.ready_heads(connection, dict.fromkeys(claim.windows), count, count)
        )

    async def still_ready(self, candidates: Sequence[Candidate]) -> set[UUID]:
        """Tell which of these tasks could be had, were they not locked."""
        return await self._database.run(lambda connection: store.still_ready(connection, candidates))

    async def _scan_all(self, asks: Sequence[store.Ask]) -> list[list[Entry]]:
        handed = await self._run(asks, partial(store.claim_scan, asks=asks))
        return [handed.get(ask.token, []) for ask in asks]

    async def _claim_all(self, wanted: Sequence[_ByKey]) -> list[list[Entry]]:
        pairs = [(one.ask, candidate) for one in wanted for candidate in one.candidates]
        handed = await self._run([one.ask for one in wanted], partial(store.claim_by_key, wanted=pairs))
        return [handed.get(one.ask.token, []) for one in wanted]

    async def _take_back(self, unwanted: Sequence[Sequence[Entry]]) -> None:
        """Release what was claimed for those who have gone since; what can't be released now times out."""
        if tasks := [entry.task for entries in unwanted for entry in entries]:
            with suppress(Unavailable):
                await self._give_back(tasks)

    async def _run(self, asks: Sequence[store.Ask], statement: Statement) -> store.Handed:
        is_rerun = False

        async def work(connection: Connection) -> store.Handed:
            nonlocal is_rerun
            if is_rerun and (mine := await store.claimed_by(connection, asks)):
                return mine
            is_rerun = True
            return await statement(connection, default_timeout=self._default_timeout)

        return await self._database.run(work)


class Scan:
    """Finds by an ordered index scan that skips locked rows: one statement, on PostgreSQL."""

    def __init__(self, hand_out: HandOut) -> None:
        self._hand_out = hand_out

    async def __call__(self, claim: Claim) -> list[Entry]:
        """Find and claim."""
        taken: list[Entry] = []
        with _keeping(taken):
            for _ in range(_ROUNDS):
                taken += await self._hand_out.by_scan(claim, claim.count - len(taken))
                # One queue's scan misses nothing. Over several, all heads that it saw may have gone to others.
                if len(claim.queues) == 1 or len(taken) == claim.count or not await self._hand_out.heads(claim, 1):
                    break
        return _in_order(taken)


class ByHeads:
    """Finds by reading the first ids without locks, and claims by key: on CockroachDB, where a scan locks too much."""

    def __init__(self, hand_out: HandOut) -> None:
        self._hand_out = hand_out

    async def __call__(self, claim: Claim) -> list[Entry]:
        """Find and claim."""
        taken: list[Entry] = []
        with _keeping(taken):
            for turn in range(_ROUNDS):
                lack = claim.count - len(taken)
                # More each time: others may have locked all that were seen the last time.
                heads = await self._hand_out.heads(claim, lack + (store.SPARE_HEADS << turn))
                while heads and lack:
                    candidates, heads = heads[:lack], heads[lack:]
                    taken += await self._hand_out.by_key(claim, candidates)
                    lack = claim.count - len(taken)
                if not lack or not await self._hand_out.heads(claim, 1):
                    break
        return _in_order(taken)


class ByHints:
    """Finds by the windows in Redis, and claims by key; where they don't serve, by the fallback."""

    def __init__(
        self, hand_out: HandOut, windows: Windows, refills: Refills, fallback: Find, group_size: int = GROUP_SIZE
    ) -> None:
        self._hand_out = hand_out
        self._windows = windows
        self._refills = refills
        self._fallback = fallback
        self._take = Group("take", self._take_all, size=group_size, take_back=self._offer_again)

    async def __call__(self, claim: Claim) -> list[Entry]:
        """Find and claim."""
        taken: list[Entry] = []
        with _keeping(taken):
            if not await self._by_windows(claim, taken):
                metrics.FALLBACK_CLAIMS.inc()
                taken += await self._fallback(msgspec.structs.replace(claim, count=claim.count - len(taken)))
        return _in_order(taken)

    async def _by_windows(self, claim: Claim, taken: list[Entry]) -> bool:
        """Claim as many as there are by the windows; False if they can't tell whether there are more."""
        # What was popped, and is neither claimed nor stale: nobody else would find it until windows are reconciled.
        unused: set[Candidate] = set()
        try:
            return await self._pop(claim, taken, unused)
        except Away:
            return False
        finally:
            if unused:
                with suppress(Away):
                    await self._windows.offer(unused)

    async def _pop(self, claim: Claim, taken: list[Entry], unused: set[Candidate]) -> bool:
        patience = monotonic() + _PATIENCE
        misses = 0
        while len(taken) < claim.count:
            popped = await self._take(_Pop(claim.windows, claim.count - len(taken)))
            if popped.candidates:
                unused.update(popped.candidates)
                claimed = await self._claim(claim, popped.candidates, unused)
                taken += claimed
                misses = 0 if claimed else misses + 1
                if misses == _MISSES and not await self._refill(claim.windows, starts_over=True):
                    return False
                if misses > 2 * _MISSES:
                    return False
            elif not popped.lacking:
                return True
            elif not await self._refill(popped.lacking):
                if monotonic() > patience:
                    return False
                await asyncio.sleep(random.uniform(0, _PAUSE))
        return True

    async def _take_all(self, pops: Sequence[_Pop]) -> list[Taken]:
        """Take from windows, for those who ask for the same ones at once."""
        counts = Counter[tuple[Window, ...]]()
        for pop in pops:
            counts[pop.windows] += pop.number
        taken = await self._take_each(counts)
        left = {windows: deque(one.candidates) for windows, one in zip(counts, taken, strict=True)}
        lacking = {windows: one.lacking for windows, one in zip(counts, taken, strict=True)}
        return [
            Taken(
                mine := [left[pop.windows].popleft() for _ in range(min(pop.number, len(left[pop.windows])))],
                lacking[pop.windows] if len(mine) < pop.number else [],
            )
            for pop in pops
        ]

    async def _take_each(self, counts: Mapping[tuple[Window, ...], int]) -> list[Taken]:
        """Take from all windows; what was taken from some is offered again if others can't tell."""
        done = await asyncio.gather(
            *(self._windows.take(windows, count) for windows, count in counts.items()), return_exceptions=True
        )
        taken = [one for one in done if isinstance(one, Taken)]
        if failed := next((one for one in done if isinstance(one, BaseException)), None):
            await self._offer_again(taken)
            raise failed
        return taken

    async def _offer_again(self, unwanted: Sequence[Taken]) -> None:
        if candidates := [candidate for taken in unwanted for candidate in taken.candidates]:
            with suppress(Away):
                await self._windows.offer(candidates)

    async def _claim(self, claim: Claim, candidates: Sequence[Candidate], unused: set[Candidate]) -> list[Entry]:
        claimed = await self._hand_out.by_key(claim, candidates)
        got = {entry.task.id for entry in claimed}
        unused.difference_update(candidate for candidate in candidates if candidate.id in got)
        metrics.HINTS.labels("claimed").inc(len(got))
        if missed := [candidate for candidate in candidates if candidate.id not in got]:
            locked = await self._hand_out.still_ready(missed)
            unused.difference_update(candidate for candidate in missed if candidate.id not in locked)
            metrics.HINTS.labels("locked").inc(len(locked))
            metrics.HINTS.labels("stale").inc(len(missed) - len(locked))
        return claimed

    async def _refill(self, windows: Sequence[Window], *, starts_over: bool = False) -> bool:
        try:
            return await (self._refills.start_over if starts_over else self._refills.refill)(windows)
        except Unavailable:
            return False


@contextmanager
def _keeping(taken: Sequence[Entry]) -> Iterator[None]:
    """Answer what was taken, though the database could not be asked for more."""
    try:
        yield
    except Unavailable:
        if not taken:
            raise


def _in_order(taken: Sequence[Entry]) -> list[Entry]:
    return sorted(taken, key=lambda entry: entry.task.order)
