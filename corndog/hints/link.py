"""The way to Redis: every call is bounded in time, and while Redis is away nobody waits for it.

It is a circuit breaker that opens at the first failure. Then it looks for Redis by itself, deletes what can't be
trusted any more, and only then closes again; so no request ever serves as the test.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from importlib.resources import files
from itertools import islice
from time import monotonic
from typing import Any, Final, TypeVar

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from corndog.domain.task import Window
from corndog.observability import metrics

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

LUA = files("corndog.hints") / "lua"

FAILURES: Final = (RedisError, OSError, TimeoutError)
"""Everything by which a call to Redis can fail."""

_CONNECTIONS = 64
_NO_LIMIT = 2**31
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 1.0
_STEADY = 5.0
"""Seconds that Redis has to serve before it is tried again at once; else it gets a rest first, longer each time."""

_CHUNK = 1000
_SPOILED_MAX = 50_000
"""How many keys to be deleted are remembered; beyond, all keys are."""


class Away(Exception):
    """Redis is not used now; the message says why. What was asked may have been done."""


class Link:
    """Connections to one Redis, under one prefix; all keys have one hash tag, so that a cluster keeps them together."""

    def __init__(self, url: str, *, prefix: str, timeout: float) -> None:
        self.timeout = timeout
        # A call that failed is not made again: it may have taken what nobody would get then.
        once = Retry(NoBackoff(), retries=0)
        # The time of a whole call is bounded here, so that its parts need no bounds of their own.
        pool = ConnectionPool.from_url(url)
        pool.max_connections = _NO_LIMIT
        pool.connection_kwargs |= {
            "decode_responses": False,
            "protocol": 2,
            "retry": once,
            "socket_timeout": None,
            "socket_connect_timeout": None,
        }
        self.client: Redis = Redis.from_pool(pool)
        self._slots = asyncio.Semaphore(_CONNECTIONS)
        self._prefix = f"{{{prefix}}}:"
        self._reason: str | None = None
        self._spoiled: set[str] = set()
        self._all_spoiled = False
        self._recovery: asyncio.Task[None] | None = None
        self._rest = 0.0
        self._back_since = -_STEADY
        metrics.REDIS_AVAILABLE.set(1)

    def key(self, kind: str, name: str) -> str:
        """Name a key."""
        return f"{self._prefix}{kind}:{name}"

    def key_of(self, kind: str, window: Window) -> str:
        """Name a key of a window; the names in it have no control characters."""
        return self.key(kind, f"{window.queue}\0{window.state}")

    def script(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Read a script `lua/<name>.lua`: it is called with its keys and arguments."""
        return self.client.register_script((LUA / f"{name}.lua").read_text())

    async def call(self, command: Callable[[], Awaitable[_T]], spoils: Collection[str] = ()) -> _T:
        """Run a command. If it is not carried out, or not surely, the keys that it spoils are deleted in time.

        Raises:
            Away: it failed or took too long, or was not tried, since an earlier one did.

        """
        is_done = False
        try:
            # Whoever waits for a connection has not begun to wait for Redis.
            async with self._slots:
                if self._reason is not None:
                    raise Away(self._reason)
                async with asyncio.timeout(self.timeout):
                    answer = await command()
                    is_done = True
                    return answer
        except FAILURES as error:
            raise Away(self._leave(error)) from error
        except asyncio.CancelledError as error:
            self._leave(error)
            raise
        finally:
            if not is_done:
                self._spoil(spoils)

    async def check(self) -> None:
        """See whether Redis is there, and can be written: one that is full or read-only is of no use.

        Raises:
            Away: it is not.

        """
        await self.call(self._probe)

    async def close(self) -> None:
        """Close all connections."""
        if self._recovery:
            self._recovery.cancel()
        await self.client.aclose()

    def _spoil(self, keys: Collection[str]) -> None:
        self._spoiled.update(keys)
        if len(self._spoiled) > _SPOILED_MAX:
            self._all_spoiled = True
            self._spoiled.clear()

    def _leave(self, error: BaseException) -> str:
        """Stop using Redis until it answers again."""
        metrics.REDIS_FAILURES.inc()
        reason = _told(error)
        if self._reason is None:
            logger.warning("Redis is away: %s", reason)
            metrics.REDIS_AVAILABLE.set(0)
            is_steady = monotonic() - self._back_since > _STEADY
            self._rest = 0.0 if is_steady else min(2 * self._rest + _FIRST_WAIT, _STEADY)
            self._recovery = asyncio.create_task(self._recover())
        self._reason = reason
        return reason

    async def _recover(self) -> None:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(Exception),
            wait=wait_random_exponential(multiplier=_FIRST_WAIT, max=_LONGEST_WAIT),
        )
        await asyncio.sleep(self._rest)
        # What other calls spoil while this one cleans up is left for another round.
        while self._reason is not None:
            await retrying(self._clean)
            if not self._spoiled and not self._all_spoiled:
                self._reason = None
        self._back_since = monotonic()
        logger.info("Redis is back")
        metrics.REDIS_AVAILABLE.set(1)

    async def _clean(self) -> None:
        """Delete what is spoiled, and see whether Redis is there."""
        # Off the list before it is deleted: what is spoiled meanwhile has to be deleted again.
        is_all, self._all_spoiled = self._all_spoiled, False
        keys: list[str] = []
        try:
            if is_all:
                await self._delete_all()
                is_all = False
            while keys := list(islice(self._spoiled, _CHUNK)):
                self._spoiled.difference_update(keys)
                await self._bounded(self.client.unlink, *keys)
            await self._bounded(self._probe)
        except Exception as error:
            self._all_spoiled |= is_all
            self._spoil(keys)
            self._reason = _told(error)
            raise

    async def _probe(self) -> None:
        await self.client.set(self.key("probe", ""), b"", px=1)

    async def _delete_all(self) -> None:
        cursor = 0
        while True:
            cursor, keys = await self._bounded(self.client.scan, cursor, f"{_literal(self._prefix)}*", _CHUNK)
            if keys:
                await self._bounded(self.client.unlink, *keys)
            if not cursor:
                return

    async def _bounded(self, command: Callable[..., Awaitable[_T]], *arguments: object) -> _T:
        async with asyncio.timeout(self.timeout):
            return await command(*arguments)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _literal(text: str) -> str:
    """Write a text as a pattern that matches it alone."""
    return "".join(f"\\{character}" if character in "\\*?[]" else character for character in text)
