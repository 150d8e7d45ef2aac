"""Wake-ups: servers tell each other that tasks became ready, for the claims that wait for them.

Each window has a channel, and a server listens only where a claim waits. A message that is lost costs a waiting claim
no more than the time until its server looks by itself.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Collection
from contextlib import suppress
from typing import Any
from uuid import uuid4

import msgspec
from redis.asyncio.client import PubSub

from corndog.domain.task import Window
from corndog.hints.link import FAILURES, Away, Link

logger = logging.getLogger(__name__)

_SILENCE = 5.0
"""Seconds without a message after which the connection is tried out."""

_PAUSE = 1.0
"""Seconds between two tries to connect, on average."""


class _Message(msgspec.Struct, frozen=True, array_like=True):
    server: str
    queue: str
    state: str
    number: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Message).decode


class WakeUps:
    """The channels of one Redis, as one server uses them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._server = uuid4().hex
        self._pubsub: PubSub | None = None
        self._wanted: frozenset[Window] = frozenset()
        self._followed: frozenset[Window] = frozenset()

    def message(self, window: Window, number: int) -> tuple[str, bytes]:
        """Write what tells the others that so many tasks became ready: a channel, and what is said on it."""
        return self._channel(window), _encode(_Message(self._server, window.queue, window.state, number))

    async def follow(self, windows: Collection[Window]) -> None:
        """Listen to these windows from now on, and to no others.

        Raises:
            Away: Redis is not used now; it will be listened to as soon as it is back.

        """
        self._wanted = frozenset(windows)
        if (pubsub := self._pubsub) is None:
            return
        if new := self._wanted - self._followed:
            await self._link.call(lambda: pubsub.subscribe(*map(self._channel, new)))
            self._followed |= new
        if old := self._followed - self._wanted:
            await self._link.call(lambda: pubsub.unsubscribe(*map(self._channel, old)))
            self._followed -= old

    async def messages(self) -> AsyncGenerator[tuple[Window, int]]:
        """Give what other servers say, for ever: in which window, and how many tasks became ready."""
        while True:
            try:
                async with self._link.client.pubsub() as pubsub:
                    # Without any channel there would be nothing to wait on.
                    own = self._link.key("server", self._server)
                    self._followed = self._wanted
                    async with asyncio.timeout(self._link.timeout):
                        await pubsub.subscribe(own, *map(self._channel, self._followed))
                    self._pubsub = pubsub
                    await self.follow(self._wanted)  # what was wanted since
                    async for message in self._received(pubsub):
                        if message.server != self._server:
                            yield Window(message.queue, message.state), message.number
            except (*FAILURES, Away) as error:
                logger.debug("no wake-ups from other servers for now: %s", error)
            finally:
                self._pubsub = None
            await asyncio.sleep(_PAUSE * random.uniform(0.5, 1.5))

    async def _received(self, pubsub: PubSub) -> AsyncGenerator[_Message]:
        is_asked = False
        while True:
            message: dict[str, Any] | None = await pubsub.get_message(timeout=_SILENCE)
            if message is not None:
                is_asked = False
                if message["type"] == "message":
                    with suppress(msgspec.DecodeError):  # of another version, or of somebody else
                        yield _decode(message["data"])
            elif is_asked:
                raise TimeoutError("the connection is silent")
            else:
                is_asked = True
                async with asyncio.timeout(self._link.timeout):
                    await pubsub.ping()

    def _channel(self, window: Window) -> str:
        return self._link.key_of("ready", window)
