"""Leases and wake-ups between servers, through a real Valkey."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tenacity import AsyncRetrying, retry_if_result, wait_fixed

from corndog.domain.task import Window
from corndog.hints.leases import LIFE_MAX, Lease, Leases
from corndog.hints.link import Away, Link
from corndog.hints.wakeups import WakeUps
from corndog.hints.windows import Windows
from tests.hints.places import TIMEOUT, linked, new_prefix, places
from tests.redis_servers import RedisServer, running_redis

A, B, C = Window("q", "a"), Window('"\U0001f32d"', "{b}"), Window("q", "c")
MARGIN = 20.0
SOON = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

# Leases -------------------------------------------------------------------------


async def test_leases_are_read_as_they_were_written(link: Link) -> None:
    leases = Leases(link)
    ids = [uuid4() for _ in range(3)]
    kept = {ids[0]: Lease(1, SOON), ids[1]: Lease(2**31, None)}
    await leases.keep(kept, dict.fromkeys(ids, LIFE_MAX))

    assert await leases.get([*ids, ids[0]]) == [kept[ids[0]], kept[ids[1]], None, kept[ids[0]]]


@pytest.mark.parametrize("life", [timedelta(milliseconds=10), timedelta(seconds=7), LIFE_MAX, timedelta(days=400)])
async def test_a_lease_lives_no_longer_than_it_may(link: Link, life: timedelta) -> None:
    task_id = uuid4()
    await Leases(link).keep({task_id: Lease(1, SOON)}, {task_id: life})
    left = await link.client.pttl(link.key("lease", task_id.hex)) * MILLISECOND

    assert left <= min(life, LIFE_MAX)
    assert left > life - timedelta(seconds=5) or life >= LIFE_MAX


@pytest.mark.parametrize(
    "life", [timedelta(days=-1), timedelta(0), timedelta(microseconds=1), timedelta(milliseconds=9)]
)
async def test_a_lease_that_is_as_good_as_over_is_not_written(link: Link, life: timedelta) -> None:
    leases = Leases(link)
    long, short = UUID(int=1), UUID(int=2)
    await leases.keep({short: Lease(1, SOON)}, {short: life})
    await leases.keep({short: Lease(1, SOON), long: Lease(2, SOON)}, {short: life, long: LIFE_MAX})

    assert await leases.get([short, long]) == [None, Lease(2, SOON)]


async def test_a_lease_stands_until_it_ends_or_is_dropped(link: Link) -> None:
    leases = Leases(link)
    ids = [uuid4() for _ in range(2)]
    for delivery in (1, 2):
        await leases.keep({task_id: Lease(delivery, SOON) for task_id in ids}, dict.fromkeys(ids, LIFE_MAX))
    await leases.drop([ids[0], uuid4()])

    assert await leases.get(ids) == [None, Lease(1, SOON)]


async def test_who_is_late_does_not_bring_back_what_was_dropped(link: Link) -> None:
    """A heartbeat may have been answered by the database before another write, and come to its key after it."""
    leases, task_id = Leases(link), uuid4()
    await leases.drop([task_id])
    await leases.keep({task_id: Lease(1, SOON)}, {task_id: LIFE_MAX})

    assert await leases.get([task_id]) == [None]
    assert 0 < await link.client.pttl(link.key("lease", task_id.hex)) <= 5000


async def test_what_is_no_lease_is_none(link: Link) -> None:
    task_id = uuid4()
    await link.client.set(link.key("lease", task_id.hex), b"\xc1garbage", px=60_000)

    assert await Leases(link).get([task_id]) == [None]


# Wake-ups -----------------------------------------------------------------------


class Ear:
    """A server that listens, and what it has heard."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.windows = Windows(link, 10)
        self.wakeups = WakeUps(link)
        self.heard: asyncio.Queue[tuple[Window, int]] = asyncio.Queue()

    async def listen(self) -> None:
        async for message in self.wakeups.messages():
            self.heard.put_nowait(message)

    async def say(self, window: Window, number: int) -> None:
        await self.windows.offer(places(window, 1), self.wakeups.message(window, number))

    async def hear(self) -> tuple[Window, int]:
        async with asyncio.timeout(MARGIN):
            return await self.heard.get()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@asynccontextmanager
async def listening(server: RedisServer, prefix: str, *windows: Window) -> AsyncIterator[Ear]:
    async with linked(server.url, prefix, TIMEOUT) as link:
        ear = Ear(link)
        await ear.wakeups.follow(windows)
        task = asyncio.create_task(ear.listen())
        try:
            await until(lambda: ear.wakeups._pubsub is not None)
            yield ear
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def ears(server: RedisServer) -> AsyncIterator[tuple[Ear, Ear]]:
    """Give two servers that follow one window."""
    prefix = new_prefix()
    async with listening(server, prefix, A) as one, listening(server, prefix, A) as other:
        await until(lambda: followers(server, one, A) == 2)
        yield one, other


def followers(server: RedisServer, ear: Ear, window: Window) -> int:
    [(_, number)] = server.client.pubsub_numsub(ear.wakeups.message(window, 1)[0])
    return int(number)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what has no other signal."""

    async def look() -> bool:
        return is_so()

    async with asyncio.timeout(MARGIN):
        await AsyncRetrying(retry=retry_if_result(lambda seen: not seen), wait=wait_fixed(0.005))(look)


async def test_others_hear_what_a_server_says_and_it_does_not_itself(ears: tuple[Ear, Ear]) -> None:
    one, other = ears
    await one.say(A, 3)
    assert await other.hear() == (A, 3)

    await other.say(A, 1)
    assert await one.hear() == (A, 1)
    assert one.heard.empty()
    assert other.heard.empty()


async def test_only_windows_that_are_followed_are_heard_of(server: RedisServer, ears: tuple[Ear, Ear]) -> None:
    one, other = ears
    await one.say(B, 1)
    await other.wakeups.follow([A, B])
    await until(lambda: followers(server, other, B) == 1)
    await one.say(B, 2)
    assert await other.hear() == (B, 2)

    await other.wakeups.follow([B])
    await until(lambda: followers(server, other, A) == 1)
    await one.say(A, 3)
    await one.say(B, 4)
    assert await other.hear() == (B, 4)


async def test_other_prefixes_are_not_heard(server: RedisServer, ears: tuple[Ear, Ear]) -> None:
    async with listening(server, new_prefix(), A) as stranger:
        await stranger.say(A, 1)
        await ears[0].say(A, 2)

        assert await ears[1].hear() == (A, 2)
        assert stranger.heard.empty()


async def test_a_lost_connection_is_made_again(server: RedisServer, ears: tuple[Ear, Ear]) -> None:
    one, other = ears
    for number in range(2):
        before = other.wakeups._pubsub
        server.client.client_kill_filter(_type="pubsub")
        await until(lambda before=before: other.wakeups._pubsub not in {None, before})  # type: ignore[misc]
        await one.say(A, number)
        assert await other.hear() == (A, number)


async def test_after_a_restart_messages_are_heard_again(server: RedisServer, ears: tuple[Ear, Ear]) -> None:
    one, other = ears
    before = other.wakeups._pubsub
    await asyncio.to_thread(server.restart)
    await until(lambda: other.wakeups._pubsub not in {None, before})
    with suppress(Away):
        await one.link.check()
    if one.link._recovery:
        await one.link._recovery
    await one.say(A, 1)

    assert await other.hear() == (A, 1)


async def test_a_window_is_followed_once_redis_is_back(server: RedisServer, ears: tuple[Ear, Ear]) -> None:
    one, other = ears
    server.fill()
    with pytest.raises(Away):
        await other.link.call(lambda: other.link.client.set(other.link.key("W", ""), "1"))
    with pytest.raises(Away):
        await other.wakeups.follow([A, B])
    server.drain()
    assert other.link._recovery
    await other.link._recovery

    await other.wakeups.follow([A, B, C])
    await until(lambda: followers(server, one, C) == 1)
    assert followers(server, one, B) == 1
