"""Windows: for each queue and state, the ids of the first ready tasks in claim order.

Each has four keys: W, a sorted set of members, all of score 0, so that they sort by their bytes; E, the edge up to
which W holds every ready task (absent: that is not known; `ALL`: W holds them all); R, the token of a refill under
way; and L, everything that was offered since that refill began. What a script does, it does at once:

    offer    adds members up to the edge, and to L; cuts W to its size, and lowers the edge
    take     removes the first members over several windows, as far as the lowest of their edges
    begin    marks a refill; then the database is read, from the edge on or, where there is none, from the start
    finish   adds what was read and what was offered meanwhile to W, and moves the edge; unless the mark is another's
             by now, or the edge is another

The token keeps a refill that was too slow from undoing what is newer; L keeps what became ready while a refill read
from being lost. A window is forgotten by deleting its keys.

That a refill goes on from the edge is what makes it cheap where the head of the queue is full of dead rows. What was
lost before the edge, since a process died, is offered again by whoever reads the head of the queue from time to time.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from corndog.domain.limits import WINDOW_SIZE_MAX
from corndog.domain.task import Candidate, Order, Window
from corndog.hints.link import Link

ALL = b"z"
"""The edge of a window that holds every ready task. Members are all digits: in whatever language the server's Lua
compares texts, a letter comes after them."""

REFILL_LIFE = timedelta(seconds=5)
"""How long a refill may take; so long a server that died in the middle of one keeps others from refilling."""

_EDGE_LIFE = timedelta(hours=1)
"""How long an edge is trusted without a refill; then a queue that nobody uses any more is gone from Redis."""

_OFFERS_MAX = WINDOW_SIZE_MAX + 1
"""How many offers are kept during a refill: one more than any server's window holds, so that a cut is noticed."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RANK_OFFSET = 2**31
_RANK, _TIME, _ID = 10, 18, 39


class Begun(NamedTuple):
    """A refill under way: of which window, and after which edge the database is to be read; None: from the start."""

    window: Window
    edge: bytes | None

    @property
    def after(self) -> Order | None:
        """The place after which to read."""
        return _order(self.edge) if self.edge else None


class Taken(NamedTuple):
    """What a take got, and the windows to be refilled before it can be said that there is no more."""

    candidates: list[Candidate]
    lacking: list[Window]


class Windows:
    """The windows in one Redis; `size` is how many tasks one holds at most.

    Raises (every method):
        Away: Redis is not used now. What may be wrong because of that is forgotten before it is used again.

    """

    def __init__(self, link: Link, size: int) -> None:
        self.size = size
        self._link = link
        self._offer, self._take, self._begin, self._finish, self._peek = (
            link.script(name) for name in ("offer", "take", "begin", "finish", "peek")
        )

    async def offer(
        self, candidates: Iterable[Candidate], messages: Sequence[str | bytes] = (), *, heads_of: int = 0
    ) -> None:
        """Offer ready tasks, and publish messages: channels and what is said on them in turn.

        `heads_of` says that they are the first so many ready tasks of their windows in the database, in order.
        """
        members: dict[Window, list[str]] = {}
        for candidate in candidates:
            members.setdefault(candidate.window, []).append(_member(candidate.order))
        keys = self._keys(members, "W", "E", "R", "L")
        lives = (_ms(2 * _EDGE_LIFE), _ms(2 * REFILL_LIFE))
        arguments = [self.size, _OFFERS_MAX, heads_of, *lives, *_flat(members.values()), *messages]
        await self._link.call(lambda: self._offer(keys, arguments), spoils=keys)

    async def take(self, windows: Sequence[Window], count: int) -> Taken:
        """Take up to `count` of the first tasks of these windows together."""
        keys = self._keys(windows, "W", "E")
        members, places, lacking = await self._link.call(lambda: self._take(keys, [count]), spoils=keys)
        candidates = [
            Candidate(windows[place], _order(member))
            for member, place in zip(members, places, strict=True)
            if len(member) == _RANK + _TIME + _ID and member.isdigit()  # whatever else is there is not ours
        ]
        return Taken(candidates, [windows[place] for place in lacking])

    async def begin(self, windows: Sequence[Window], token: str) -> list[Begun]:
        """Begin the refill of windows; answers those that no other refill is under way of."""
        keys = self._keys(windows, "E", "R", "L")
        edges = await self._link.call(lambda: self._begin(keys, [token, _ms(REFILL_LIFE)]))
        return [
            Begun(window, None if edge in {b"", ALL} else edge)
            for window, edge in zip(windows, edges, strict=True)
            if edge != 0
        ]

    async def finish(self, token: str, found: Mapping[Begun, Sequence[Order]], limit: int) -> list[Window]:
        """Finish the refill of windows with the next `limit` tasks of each; answers those for which it counted."""
        keys = self._keys((begun.window for begun in found), "W", "E", "R", "L")
        edges = [begun.edge or b"" for begun in found]
        members = [[_member(order) for order in orders] for orders in found.values()]
        lives = (_ms(2 * _EDGE_LIFE), _ms(_EDGE_LIFE))
        counted = await self._link.call(
            lambda: self._finish(keys, [token, self.size, limit, *lives, *edges, *_flat(members)])
        )
        return [begun.window for begun, has_counted in zip(found, counted, strict=True) if has_counted]

    async def forget(self, windows: Iterable[Window]) -> None:
        """Forget windows: what they hold is not known any more."""
        if keys := self._keys(windows, "W", "E", "R", "L"):
            await self._link.call(lambda: self._link.client.unlink(*keys), spoils=keys)

    async def take_turn(self, task: str, seconds: float) -> bool:
        """Be the one of all servers that does something, for so long; False: another is."""
        key = self._link.key("turn", task)
        return bool(await self._link.call(lambda: self._link.client.set(key, b"", px=_ms_of(seconds), nx=True)))

    async def keep_turn(self, task: str, seconds: float) -> None:
        """Have nobody do it for so long."""
        key = self._link.key("turn", task)
        await self._link.call(lambda: self._link.client.set(key, b"", px=_ms_of(seconds)))

    async def peek(self, windows: Sequence[Window]) -> list[int | None]:
        """Look how many tasks each window holds; None where that is not known."""
        keys = self._keys(windows, "W", "E")
        return [None if number < 0 else number for number in await self._link.call(lambda: self._peek(keys))]

    def _keys(self, windows: Iterable[Window], *kinds: str) -> list[str]:
        return [self._link.key_of(kind, window) for window in windows for kind in kinds]


def _member(order: Order) -> str:
    """Write a place as text that sorts as places do: rank, time and id, each of fixed width."""
    rank, submit_time, task_id = order
    return f"{rank + _RANK_OFFSET:0{_RANK}}{(submit_time - _EPOCH) // _MICROSECOND:0{_TIME}}{task_id.int:0{_ID}}"


def _order(member: bytes) -> Order:
    rank, micros = int(member[:_RANK]) - _RANK_OFFSET, int(member[_RANK : _RANK + _TIME])
    return rank, _EPOCH + micros * _MICROSECOND, UUID(int=int(member[_RANK + _TIME :]))


def _flat(groups: Iterable[Sequence[str]]) -> list[int | str]:
    """Write groups as how long each is, and then what is in them."""
    groups = list(groups)
    return [*map(len, groups), *(member for group in groups for member in group)]


def _ms(duration: timedelta) -> int:
    return _ms_of(duration.total_seconds())


def _ms_of(seconds: float) -> int:
    return max(1, round(seconds * 1000))
