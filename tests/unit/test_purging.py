"""The loop over purges: in batches until one is not full, whatever fails, and not beyond the end of the process."""

import asyncio
from unittest.mock import Mock

import pytest

from corndog.domain.errors import Unavailable
from corndog.scheduler.leader import Leader
from corndog.scheduler.retention import retention
from corndog.scheduler.runner import GRACE, running
from corndog.service import retention as module
from corndog.service.retention import BATCH, FIRST_BATCH, Purge, Retention


class Heap:
    """So much to be deleted, each batch at a pace of its own."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.batches: list[int] = []

    async def purge(self, batch: int) -> int:
        self.batches.append(batch)
        number = min(batch, self.left)
        self.left -= number
        return number


class Clock:
    """A clock that moves on by a step each time that it is read."""

    def __init__(self, *steps: float) -> None:
        self._steps = iter(steps)
        self._time = 0.0

    def __call__(self) -> float:
        self._time += next(self._steps, 0.0)
        return self._time


async def test_each_purge_goes_on_until_a_batch_is_not_full() -> None:
    heaps = [Heap(0), Heap(FIRST_BATCH - 1), Heap(FIRST_BATCH), Heap(3000)]
    purges = Retention([Purge("heap", heap.purge) for heap in heaps])
    assert await purges.purge() == 2 * FIRST_BATCH - 1 + 3000
    assert [heap.left for heap in heaps] == [0] * 4
    assert [heap.batches for heap in heaps[:3]] == [[FIRST_BATCH], [FIRST_BATCH], [FIRST_BATCH, 2 * FIRST_BATCH]]
    assert heaps[3].batches[:6] == [25, 50, 100, 200, 400, 500]
    assert max(heaps[3].batches) == BATCH
    assert await purges.purge() == 0


async def test_a_batch_that_took_long_is_followed_by_a_smaller_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retention, "_rest", rests := RestFor())
    monkeypatch.setattr(module, "monotonic", Clock(0, 0.01, 0, 0.3, 0, 0.6, 0, 9, *[0, 9] * 6))
    heap = Heap(10**6)
    purges = Retention([Purge("heap", heap.purge)])
    rests.until(10, purges.stop)
    await purges.purge()
    assert heap.batches == [25, 50, 50, 25, 12, 6, 3, 1, 1, 1]
    assert rests.times[:4] == pytest.approx([0.01, 0.3, 0.6, 9])


class RestFor:
    """Stands in for the rests between batches: writes them down, and reacts to the last of so many."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._number, self._react = 0, Mock()

    def until(self, number: int, react: object) -> None:
        self._number, self._react = number, react  # type: ignore[assignment]

    async def __call__(self, seconds: float) -> None:
        self.times.append(seconds)
        if len(self.times) == self._number:
            self._react()


async def test_a_purge_that_fails_holds_up_no_other() -> None:
    async def fail(_batch: int) -> int:
        raise Unavailable("not now")

    heap = Heap(3)
    purges = Retention([Purge("broken", fail), Purge("heap", heap.purge)])
    with pytest.raises(Unavailable) as raised:
        await purges.purge()
    assert raised.value.__notes__ == ["while purging broken"]
    assert heap.left == 0


class Endless:
    """Never done; tells when it has begun, and what became of its batches."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.begun = self.done = 0

    async def purge(self, batch: int) -> int:
        self.begun += 1
        self.has_begun.set()
        await self.may_end.wait()
        self.done += 1
        return batch


async def test_at_the_end_a_batch_is_finished_and_no_other_begins() -> None:
    work, later = Endless(), Heap(1)
    purges = Retention([Purge("endless", work.purge), Purge("later", later.purge)])
    leader = Mock(spec=Leader, leads=True)
    async with asyncio.timeout(20):
        async with running([retention(purges, 0.01)], leader):
            await work.has_begun.wait()
            purges.stop()
            asyncio.get_running_loop().call_later(GRACE / 10, work.may_end.set)
    assert (work.begun, work.done) == (1, 1)
    assert later.batches == []


async def test_a_rest_ends_at_once_when_all_is_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "monotonic", Clock(0, 10_000))
    purges = Retention([Purge("endless", (work := Endless()).purge)])
    work.may_end.set()
    async with asyncio.timeout(20):
        run = asyncio.create_task(purges.purge())
        await work.has_begun.wait()
        purges.stop()
        assert await run == FIRST_BATCH
