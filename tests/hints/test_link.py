"""Redis fails in every way that there is: nobody waits for it twice, and what can't be trusted any more is deleted."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import Thread
from time import monotonic

import pytest
import redis
from tenacity import AsyncRetrying, retry_if_result, wait_fixed

from corndog.hints import link as link_module
from corndog.hints.link import Away, Link
from tests.hints.places import TIMEOUT, linked, new_prefix
from tests.redis_servers import RedisServer, running_redis

SHORT = 1.0
"""Seconds that a call waits for a Redis that does not answer."""

MARGIN = 20.0
"""Seconds beyond what a call may take on a quiet machine: this tells slow from endless."""

CALLS = 50


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
async def link(server: RedisServer) -> AsyncIterator[Link]:
    async with linked(server.url, new_prefix(), SHORT) as link:
        yield link


def write(link: Link, key: str) -> Awaitable[object]:
    return link.call(lambda: link.client.set(key, "1"), spoils=[key])


async def healed(link: Link) -> None:
    """Wait until a link has found its Redis again."""
    assert link._recovery
    async with asyncio.timeout(MARGIN):
        await asyncio.shield(link._recovery)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what has no other signal."""

    async def look() -> bool:
        return is_so()

    async with asyncio.timeout(MARGIN):
        await AsyncRetrying(retry=retry_if_result(lambda seen: not seen), wait=wait_fixed(0.005))(look)


@contextmanager
def refusing(server: RedisServer) -> Iterator[None]:
    server.kill()
    try:
        yield
    finally:
        server.start()


@contextmanager
def silent(server: RedisServer) -> Iterator[None]:
    server.pause()
    try:
        yield
    finally:
        server.resume()


@contextmanager
def full(server: RedisServer) -> Iterator[None]:
    server.fill()
    try:
        yield
    finally:
        server.drain()


@contextmanager
def read_only(server: RedisServer) -> Iterator[None]:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        server.client.replicaof("127.0.0.1", deaf.getsockname()[1])
        try:
            yield
        finally:
            server.client.replicaof("NO", "ONE")


@contextmanager
def busy(server: RedisServer) -> Iterator[None]:
    def run() -> None:
        with redis.Redis(port=server.port) as client, suppress(redis.ResponseError):
            client.eval("while true do end", 0)

    def is_busy() -> bool:
        try:
            server.client.ping()
        except redis.ResponseError:
            return True
        return False

    server.client.config_set("busy-reply-threshold", 1)
    thread = Thread(target=run)
    thread.start()
    while not is_busy():
        pass
    try:
        yield
    finally:
        server.client.script_kill()
        thread.join()


@pytest.mark.parametrize("fault", [refusing, silent, full, read_only, busy])
async def test_one_call_pays_and_the_link_heals_by_itself(
    server: RedisServer, link: Link, fault: Callable[[RedisServer], AbstractContextManager[None]]
) -> None:
    keys = [link.key("W", str(number)) for number in range(CALLS)]
    other = link.key("W", "other")
    for key in (*keys, other):
        await write(link, key)

    with ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, fault(server))
        began = monotonic()
        with pytest.raises(Away):
            await write(link, keys[0])
        assert monotonic() - began < SHORT + MARGIN
        began = monotonic()
        for key in keys[1:]:
            with pytest.raises(Away):
                await write(link, key)
        assert monotonic() - began < SHORT
        with pytest.raises(Away):
            await link.check()
        await asyncio.to_thread(stack.close)

    await healed(link)
    left = await link.call(lambda: link.client.mget(keys))
    assert left == [None] * CALLS
    assert (await link.call(lambda: link.client.exists(other))) == (fault is not refusing)
    await write(link, keys[0])
    await link.check()


async def test_a_redis_that_was_restarted_is_used_again(server: RedisServer, link: Link) -> None:
    keys = [link.key("W", "a"), link.key("W", "b")]
    await write(link, keys[0])
    await asyncio.to_thread(server.restart)

    # A connection that is closed may be found out before it is used.
    with suppress(Away):
        await write(link, keys[1])
    if link._reason:
        await healed(link)
    await write(link, keys[1])
    assert await link.call(lambda: link.client.mget(keys)) == [None, b"1"]


async def test_many_who_wait_for_a_silent_redis_wait_no_longer_than_one(server: RedisServer, link: Link) -> None:
    with silent(server):
        began = monotonic()
        answers = await asyncio.gather(*(link.check() for _ in range(500)), return_exceptions=True)
        assert monotonic() - began < SHORT + MARGIN
    assert all(isinstance(answer, Away) for answer in answers)
    await healed(link)


async def test_what_is_spoiled_is_deleted_before_the_link_is_used(
    server: RedisServer, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [link.key("W", str(number)) for number in range(2500)]
    for key in keys:
        server.client.set(key, "1")
    seen = []
    unlink = link.client.unlink

    async def watched(*names: str) -> int:
        seen.append(len(names))
        with pytest.raises(Away):
            await link.check()
        deleted: int = await unlink(*names)
        return deleted

    monkeypatch.setattr(link.client, "unlink", watched)
    with full(server):
        for key in keys:
            with pytest.raises(Away):
                await write(link, key)

    await healed(link)
    assert sum(seen) >= len(keys)
    assert len(seen) >= 3
    assert server.client.exists(*keys) == 0


async def test_what_is_spoiled_while_it_is_deleted_is_deleted_again(
    server: RedisServer, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = link.key("W", "a")
    unlink = link.client.unlink
    is_first = True

    async def overtaken(*names: str) -> int:
        nonlocal is_first
        deleted: int = await unlink(*names)
        if is_first:
            is_first = False
            server.client.set(key, "by another server, before this one wrote a task that it can't offer")
            with pytest.raises(Away):
                await write(link, key)
        return deleted

    monkeypatch.setattr(link.client, "unlink", overtaken)
    with full(server), pytest.raises(Away):
        await write(link, key)

    await healed(link)
    assert not server.client.exists(key)


ODD_PREFIXES = ["corn*", "c[o]rn", "c?rn", "c\\orn", "corn", "{corn}", "[^a]*?\\"]


@pytest.mark.parametrize("prefix", ODD_PREFIXES)
async def test_too_many_spoiled_keys_have_all_keys_of_the_prefix_deleted(
    server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "_SPOILED_MAX", 10)
    server.flush()
    async with linked(server.url, prefix, SHORT) as link:
        for name in [*ODD_PREFIXES, "corn-dog", "cornx", "corny", "x", ""]:
            for number in range(30):
                server.client.set(f"{{{name}}}:W:{number}", "1")
            server.client.set(name or "nothing", "1")
        before = {*server.client.keys()}
        own = {link.key("W", str(number)).encode() for number in range(30)}
        with full(server), pytest.raises(Away):
            await link.call(
                lambda: link.client.set(link.key("W", "0"), "2"), [link.key("W", str(n)) for n in range(11)]
            )

        await healed(link)
        assert {*server.client.keys()} - {link.key("probe", "").encode()} == before - own


async def test_what_is_spoiled_while_all_keys_are_deleted_is_deleted_too(
    server: RedisServer, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "_SPOILED_MAX", 10)
    keys = [link.key("W", str(number)) for number in range(11)]
    scan = link.client.scan
    is_first = True

    async def overtaken(*arguments: object) -> object:
        nonlocal is_first
        answer: object = await scan(*arguments)  # type: ignore[arg-type]  # as the link gives them
        if is_first:
            is_first = False
            server.client.set(keys[0], "by another server, before this one wrote a task that it can't offer")
            with pytest.raises(Away):
                await link.call(link.client.ping, spoils=keys)
        return answer

    monkeypatch.setattr(link.client, "scan", overtaken)
    with full(server), pytest.raises(Away):
        await link.call(lambda: link.client.set(keys[0], "1"), spoils=keys)

    await healed(link)
    assert not server.client.exists(keys[0])


async def test_a_call_that_is_cancelled_leaves_no_answer_to_another(server: RedisServer, link: Link) -> None:
    async def ask(number: int) -> None:
        assert await link.call(lambda: link.client.echo(str(number))) == str(number).encode()

    for number in range(CALLS):
        call = asyncio.create_task(ask(number))
        for _ in range(number % 10):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        if link._reason:
            await healed(link)
        await asyncio.gather(*map(ask, range(5)))


async def test_a_call_that_is_cancelled_spoils_its_keys(server: RedisServer, link: Link) -> None:
    key = link.key("W", "a")
    await write(link, key)
    call = asyncio.create_task(link.call(lambda: link.client.blpop([link.key("list", "")], 0), spoils=[key]))
    await until(lambda: server.client.info("clients")["blocked_clients"] == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await healed(link)
    assert not server.client.exists(key)
    await until(lambda: server.client.info("clients")["blocked_clients"] == 0)


async def test_more_calls_than_connections_are_all_answered(server: RedisServer) -> None:
    async with linked(server.url, new_prefix(), TIMEOUT) as link:
        await asyncio.gather(*(link.check() for _ in range(1000)))
        assert server.client.info("clients")["connected_clients"] < 100
