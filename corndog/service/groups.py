"""Group commit: what many requests ask for at the same time is written together, and each gets its own answer.

Nothing waits for a timer. A free slot takes what is there; what comes while all slots are busy is the next group.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar
from uuid import UUID

from corndog.domain.errors import CorndogError

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class Group(Generic[_Item, _Answer]):
    """Writes items in groups of at most `size`, by ids that are different within a group.

    `write` takes the items of a group in order of their ids and gives the answers by id; an item without one was not
    written. It runs in up to `slots` groups at a time.
    """

    def __init__(
        self,
        write: Callable[[Sequence[_Item]], Awaitable[Mapping[UUID, _Answer]]],
        id_of: Callable[[_Item], UUID],
        *,
        slots: int,
        size: int,
    ) -> None:
        self._write = write
        self._id_of = id_of
        self._slots = slots
        self._size = size
        self._waiting: deque[tuple[_Item, asyncio.Future[_Answer | None]]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, item: _Item) -> _Answer | None:
        """Write an item with others; None if it was not written.

        Raises:
            CorndogError: the group was refused, as each of its items would have been.

        """
        future: asyncio.Future[_Answer | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._start()
        return await future

    def _start(self) -> None:
        while self._waiting and len(self._under_way) < self._slots:
            task = asyncio.create_task(self._run(self._next()))
            self._under_way.add(task)
            task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._start()

    def _next(self) -> dict[UUID, tuple[_Item, "asyncio.Future[_Answer | None]"]]:
        """Take a group, without those whose requests are gone; a second item for the same id waits for the next."""
        group: dict[UUID, tuple[_Item, asyncio.Future[_Answer | None]]] = {}
        left: list[tuple[_Item, asyncio.Future[_Answer | None]]] = []
        while self._waiting and len(group) < self._size:
            item, future = self._waiting.popleft()
            if future.done():
                continue
            if self._id_of(item) in group:
                left.append((item, future))
            else:
                group[self._id_of(item)] = item, future
        self._waiting.extendleft(reversed(left))
        return dict(sorted(group.items()))

    async def _run(self, group: Mapping[UUID, tuple[_Item, "asyncio.Future[_Answer | None]"]]) -> None:
        try:
            answers = await self._write([item for item, _ in group.values()])
        except Exception as error:  # noqa: BLE001 - it is passed on to whoever asked
            if isinstance(error, CorndogError) or len(group) == 1:
                for _, future in group.values():
                    if not future.done():
                        future.set_exception(error)
                return
            # One of them is at fault, and not its neighbours.
            for item_id, one in group.items():
                await self._run({item_id: one})
            return
        for item_id, (_, future) in group.items():
            if not future.done():
                future.set_result(answers.get(item_id))
