"""Group commit: what many requests ask for at the same time is written together, and each gets its own answer.

Nothing waits for a timer. A free slot takes what is there; what comes while all slots are busy is the next group.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from corndog.domain.errors import CorndogError, Unavailable
from corndog.domain.task import Content
from corndog.observability import metrics

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

GROUP_SIZE = 100
"""How many items a group has at most, where nothing else is said."""

SLOTS = 2
"""How many groups of a kind are under way at a time: while the database writes one, the next is made ready."""

BYTES_MAX = 4 * 1024 * 1024
"""How many bytes of contents one group has at most, unless a single item has more."""

WAITING_MAX = 20_000
WAITING_BYTES_MAX = 256 * 1024 * 1024
"""How much waits for its group at most; whoever comes then is told to come again."""


class _Waiting(NamedTuple, Generic[_Item, _Answer]):
    item: _Item
    bytes: int
    answer: "asyncio.Future[_Answer]"


class Group(Generic[_Item, _Answer]):
    """Writes items in groups of at most `size`, in up to `slots` groups at a time. An item may count for more than one.

    `write` takes the items of a group, in the order in which they came, and gives their answers in that order. Items of
    the same key are never in one group; None is a key that every item may have. A group has only items that are alike.
    `take_back` gets the answers for which nobody waits any more. `name` is what metrics call it.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[_Item]], Awaitable[Sequence[_Answer]]],
        *,
        slots: int = SLOTS,
        size: int = GROUP_SIZE,
        key_of: Callable[[_Item], Hashable] = lambda _: None,
        alike: Callable[[_Item], Hashable] = lambda _: None,
        number_of: Callable[[_Item], int] = lambda _: 1,
        bytes_of: Callable[[_Item], int] = lambda _: 0,
        take_back: Callable[[Sequence[_Answer]], Awaitable[object]] | None = None,
    ) -> None:
        self._write = write
        self._key_of = key_of
        self._alike = alike
        self._number_of = number_of
        self._bytes_of = bytes_of
        self._take_back = take_back
        self._slots = slots
        self._size = size
        self._waiting: deque[_Waiting[_Item, _Answer]] = deque()
        self._waiting_bytes = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._sizes = metrics.GROUP_SIZES.labels(name)

    def __call__(self, item: _Item) -> "asyncio.Future[_Answer]":
        """Write an item with others. Whoever cancels the future leaves the group, unless it is under way.

        Raises (the future):
            Unavailable: too much waits already; nothing was done.
            CorndogError: the group was refused, as each of its items would have been.

        """
        future: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        size = self._bytes_of(item)
        if self._waiting and (len(self._waiting) >= WAITING_MAX or self._waiting_bytes + size > WAITING_BYTES_MAX):
            future.set_exception(Unavailable("more is asked than the database can take now; try again"))
            return future
        self._waiting.append(_Waiting(item, size, future))
        self._waiting_bytes += size
        self._start()
        return future

    def _start(self) -> None:
        if len(self._under_way) < self._slots:
            # It takes its group when it begins to run: all that is asked until then is in it.
            task = asyncio.create_task(self._run())
            self._under_way.add(task)
            task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        if self._waiting:
            self._start()

    def _next(self) -> list[_Waiting[_Item, _Answer]]:
        """Take a group, without those whose requests are gone; what can't be in it waits for the next."""
        group: list[_Waiting[_Item, _Answer]] = []
        keys: set[Hashable] = set()
        later: list[_Waiting[_Item, _Answer]] = []
        number = size = 0
        while self._waiting and number < self._size:
            first = self._waiting[0]
            is_full = number + self._number_of(first.item) > self._size or size + first.bytes > BYTES_MAX
            if group and is_full:
                break
            waiting = self._waiting.popleft()
            if waiting.answer.done():
                self._waiting_bytes -= waiting.bytes
                continue
            key = self._key_of(waiting.item)
            is_another = bool(group) and self._alike(waiting.item) != self._alike(group[0].item)
            if is_another or (key is not None and key in keys):
                later.append(waiting)
                continue
            keys.add(key)
            group.append(waiting)
            number += self._number_of(waiting.item)
            size += waiting.bytes
        self._waiting.extendleft(reversed(later))
        self._waiting_bytes -= size
        return group

    async def _run(self) -> None:
        while group := self._next():
            self._sizes.observe(sum(self._number_of(waiting.item) for waiting in group))
            await self._answer(group)

    async def _answer(self, group: Sequence[_Waiting[_Item, _Answer]]) -> None:
        try:
            answers = await self._write([waiting.item for waiting in group])
        except Exception as error:  # noqa: BLE001 - it is passed on to whoever asked
            if len(group) > 1 and not isinstance(error, CorndogError):
                # One of them is at fault, and not its neighbours.
                for waiting in group:
                    await self._answer([waiting])
                return
            for waiting in group:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            return
        unwanted: list[_Answer] = []
        for waiting, answer in zip(group, answers, strict=True):
            if waiting.answer.done():
                unwanted.append(answer)
            else:
                waiting.answer.set_result(answer)
        if unwanted and self._take_back:
            await self._take_back(unwanted)


class _WithId(Protocol):
    @property
    def id(self) -> UUID: ...


def id_of(item: _WithId) -> UUID:
    """Give the key of items that write a task: no statement may write one twice."""
    return item.id


def bytes_of(content: Content | None) -> int:
    """Tell the size of a payload or result."""
    return len(content.data) if content else 0
