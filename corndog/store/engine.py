"""The database: one pool of connections, and one way to run work on them.

Work is a coroutine function over the pool's own asyncpg connection. It may be run again from its start, after any
conflict and after any lost connection, so it must recognise its own effect (see `corndog.store.tasks`).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from sqlalchemy import event, make_url
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from corndog.domain.errors import Unavailable
from corndog.store.sqlstates import Meaning, meaning

if TYPE_CHECKING:
    import asyncpg

logger = logging.getLogger(__name__)

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Isolation = Literal["read committed", "serializable"]
_T = TypeVar("_T")

_FIRST_WAIT = 0.005
_LONGEST_WAIT = 0.5
_SILENCE = 5.0
_IDLENESS = 10.0
"""Seconds after which the database ends a transaction whose process has stopped."""
_COMMIT = 15.0
"""Seconds that a commit may take after the last statement, at the very most."""
_PLANS = {
    # Every statement is short and made for one plan: from index to index, row by row. Statistics are old wherever a
    # queue has just filled or drained, and by them PostgreSQL would read whole queues, or plan each claim anew.
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
}
_RERUN = frozenset({Meaning.CONFLICT, Meaning.LOST})


def is_cockroach(url: str) -> bool:
    """Whether a database URL names CockroachDB."""
    return make_url(url).get_backend_name() == "cockroachdb"


class Database:
    """A pool of connections whose every transaction is rerun until it is through.

    Raises (every method that runs work):
        Unavailable: the database took no work for `retry_deadline` seconds. Nothing that was acknowledged is lost;
            what was asked may have happened if the connection was lost at the commit.

    """

    def __init__(
        self,
        url: str,
        *,
        isolation: Isolation = "read committed",
        pool_size: int = 10,
        pool_timeout: float = 10.0,
        statement_timeout: float = 30.0,
        retry_deadline: float = 15.0,
    ) -> None:
        self.is_cockroach = is_cockroach(url)
        self.isolation = isolation
        session = {
            "application_name": "corndog",
            "timezone": "UTC",
            "default_transaction_isolation": isolation,
            "statement_timeout": f"{statement_timeout * 1000:.0f}",
            "idle_in_transaction_session_timeout": f"{_IDLENESS * 1000:.0f}",
        }
        if not self.is_cockroach:
            session |= _PLANS
        self.engine: AsyncEngine = create_async_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=pool_timeout,
            connect_args={
                "server_settings": session,
                "timeout": pool_timeout,
                # For a database that has gone silent: it can't end the statement itself.
                "command_timeout": statement_timeout + _SILENCE,
            },
        )
        event.listen(self.engine.sync_engine, "checkout", _refuse_closed)
        self._turns = asyncio.Semaphore(pool_size)
        self._pool_timeout = pool_timeout
        self._stop = stop_after_delay(retry_deadline)
        self._limit = statement_timeout
        self.longest_transaction = timedelta(seconds=statement_timeout + _COMMIT)
        """How long after a write its commit may be seen by others: one statement or several take no longer."""

    async def run(self, work: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Run work whose every statement is a transaction of its own."""
        return await self._persist(work)

    async def transaction(self, work: Callable[[Connection], Awaitable[_T]], *, is_limited: bool = True) -> _T:
        """Run work as one transaction: all of it is committed when this returns, or none of it.

        It may take as long as one statement, unless it writes nothing that is counted.
        """

        async def in_transaction(connection: Connection) -> _T:
            async with asyncio.timeout(self._limit if is_limited else None), connection.transaction():
                return await work(connection)

        return await self._persist(in_transaction)

    async def once(self, work: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Run work, and again only after a conflict: to learn how the database is, not to get something done."""
        return await self._persist(work, {Meaning.CONFLICT})

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()

    async def _persist(self, work: Callable[[Connection], Awaitable[_T]], rerun: Collection[Meaning] = _RERUN) -> _T:
        try:
            return await self._once(work)
        except Exception as error:
            if meaning(error) not in rerun:
                raise _told(error) from error
            return await self._again(work, rerun)

    async def _again(self, work: Callable[[Connection], Awaitable[_T]], rerun: Collection[Meaning]) -> _T:
        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: meaning(error) in rerun),
            wait=wait_random_exponential(multiplier=_FIRST_WAIT, max=_LONGEST_WAIT),
            stop=self._stop,
            reraise=True,
        )
        try:
            return await retrying(self._once, work)
        except Exception as error:
            raise _told(error) from error

    async def _once(self, work: Callable[[Connection], Awaitable[_T]]) -> _T:
        async with self._connection() as connection:
            return await work(connection)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        await self._wait_for_turn()
        try:
            pooled = await self.engine.raw_connection()
            try:
                yield cast("Connection", pooled.driver_connection)
            except BaseException as error:
                # A lost connection can't be used again; one whose statement was cancelled half-way must not be.
                if isinstance(error, asyncio.CancelledError) or meaning(error) is Meaning.LOST:
                    pooled.invalidate()
                raise
            finally:
                pooled.close()
        finally:
            self._turns.release()

    async def _wait_for_turn(self) -> None:
        """Wait in line for a connection: in the pool's own line, whoever comes when one gets free passes all others."""
        try:
            async with asyncio.timeout(self._pool_timeout if self._turns.locked() else None):
                await self._turns.acquire()
        except TimeoutError:
            raise PoolTimeoutError(f"no connection got free within {self._pool_timeout} s") from None


def _refuse_closed(connection: Any, _record: object, _proxy: object) -> None:  # noqa: ANN401 - the pool's own
    """Replace the whole pool at once where the database has closed a connection of it: it was restarted."""
    if connection.driver_connection.is_closed():
        raise InvalidatePoolError


def _told(error: Exception) -> Exception:
    """Say what can be said of an error that no rerun helps against."""
    if meaning(error) is Meaning.FAULT:
        return error
    logger.warning("the database is unavailable: %s: %s", type(error).__name__, error)
    return Unavailable("the database can't take this now; try again")
