"""Databases that misbehave on purpose: real conflicts, and connections that really die.

FaultyDatabase          puts `around` about every statement, and about BEGIN and COMMIT
├── ConflictingDatabase  a share of them answers 40001, from the database itself
├── DyingDatabase        the n-th of them loses its connection: before, during or after it is done
└── CountingDatabase     writes down what goes over the wire
"""

import asyncio
import operator
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Any, TypeVar, cast

import asyncpg
from sqlalchemy import make_url
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.store.engine import Connection, Database
from corndog.store.schema import metadata

_T = TypeVar("_T")

CONFLICT = "DO $$ BEGIN RAISE SQLSTATE '40001' USING MESSAGE = 'injected'; END $$"
BEGIN, COMMIT = "BEGIN", "COMMIT"


def plain_url(database_url: str) -> str:
    """Write a database's URL as asyncpg and the PostgreSQL programs read it."""
    return make_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)


class Interposed:
    """A connection with something put about each of its statements; it has what the store uses of one."""

    def __init__(self, connection: Connection, database: "FaultyDatabase") -> None:
        self._connection = connection
        self._database = database

    async def fetch(self, query: str, *args: object, timeout: float | None = None) -> list[asyncpg.Record]:  # noqa: ASYNC109
        return await self._around(query, lambda: self._connection.fetch(query, *args, timeout=timeout))

    async def fetchrow(self, query: str, *args: object) -> asyncpg.Record | None:
        return await self._around(query, lambda: self._connection.fetchrow(query, *args))

    async def fetchval(self, query: str, *args: object) -> Any:  # noqa: ANN401 - as asyncpg has it
        return await self._around(query, lambda: self._connection.fetchval(query, *args))

    async def execute(self, query: str, *args: object) -> str:
        return await self._around(query, lambda: self._connection.execute(query, *args))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        await self._around(BEGIN, lambda: self._connection.execute("BEGIN"))
        try:
            yield
            await self._around(COMMIT, lambda: self._connection.execute("COMMIT"))
        except BaseException:
            if not self._connection.is_closed() and self._connection.is_in_transaction():
                await self._connection.execute("ROLLBACK")
            raise

    async def _around(self, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        return await self._database.around(self._connection, query, run)


class FaultyDatabase(Database):
    """A database whose every statement can be interfered with."""

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        """Run a statement."""
        return await run()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        async with super()._connection() as connection:
            yield cast("Connection", Interposed(connection, self))


class ConflictingDatabase(FaultyDatabase):
    """Answers 40001 to a random share of all statements, instead of running them."""

    def __init__(self, url: str, *, share: float = 0.2, seed: int | str = 0, **options: Any) -> None:  # noqa: ANN401
        super().__init__(url, **options)
        self._share = share
        self._random = random.Random(seed)
        self.injected = 0
        self.statements = 0

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        self.statements += 1
        if self._random.random() < self._share:
            self.injected += 1
            await connection.execute(CONFLICT)
        return await run()


class Death(Enum):
    """When a connection is lost, seen from the statement under way."""

    BEFORE = "the statement never reached the database"
    DURING = "the statement was stopped half-way"
    AFTER = "the statement was done, and its answer lost"


class DyingDatabase(FaultyDatabase):
    """Loses the connection at one statement: the `at`-th from the start, counted from 0.

    `meanwhile` is what others do before the write is tried again.
    """

    def __init__(
        self,
        url: str,
        death: Death,
        at: int = 0,
        *,
        meanwhile: Callable[[], Awaitable[object]] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(url, **options)
        self._url = plain_url(url)
        self._death = death
        self._at = at
        self._meanwhile = meanwhile
        self.log: list[str] = []

    @property
    def has_died(self) -> bool:
        """Whether there was such a statement."""
        return len(self.log) > self._at

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        place = len(self.log)
        self.log.append(query)
        if place != self._at:
            return await run()
        if self._death is Death.DURING:
            return await self._run_and_die(connection, query, run)
        if self._death is Death.AFTER:
            await run()
        await self._kill(connection)
        if self._meanwhile:
            await self._meanwhile()
        if self._death is Death.AFTER:
            raise asyncpg.ConnectionDoesNotExistError("injected: the answer was lost")
        return await run()

    async def _run_and_die(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        """Have the statement wait for a lock on a table, and kill it there.

        Where its own transaction has locked all its tables before, it waits for nobody, and is killed as it begins.
        """
        pid = connection.get_server_pid()
        async with _connected(self._url) as locker, locker.transaction():
            if not await _lock_one(locker, tables_of(query)):
                await self._kill(connection)
                return await run()
            killing = asyncio.create_task(_kill_when_waiting(self._url, pid))
            try:
                return await run()
            finally:
                await killing

    async def _kill(self, connection: Connection) -> None:
        async with _connected(self._url) as killer:
            await _terminate(killer, connection.get_server_pid())


class CountingDatabase(FaultyDatabase):
    """Writes down every statement that goes over the wire."""

    def __init__(self, url: str, **options: Any) -> None:  # noqa: ANN401
        super().__init__(url, **options)
        self.log: list[str] = []

    async def around(self, connection: Connection, query: str, run: Callable[[], Awaitable[_T]]) -> _T:
        self.log.append(query)
        return await run()


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def tables_of(query: str) -> list[str]:
    """Name the tables that a statement has to do with: a column may be called like another."""
    return [table for table in metadata.tables if re.search(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+{table}\b", query)]


async def _lock_one(locker: Connection, tables: list[str]) -> bool:
    """Lock the first table that the killed connection's own transaction has not locked already, if there is one."""
    for table in tables:
        with suppress(asyncpg.LockNotAvailableError):
            async with locker.transaction():
                await locker.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE NOWAIT")
            return True
    return False


async def _kill_when_waiting(url: str, pid: int) -> None:
    async with _connected(url) as killer:
        waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)"
        poll = AsyncRetrying(retry=retry_if_result(operator.not_), wait=wait_fixed(0.005), stop=stop_after_delay(20))
        await poll(killer.fetchval, waiting, pid)
        await _terminate(killer, pid)


async def _terminate(killer: Connection, pid: int) -> None:
    """End a connection's process, and wait until it is gone."""
    assert await killer.fetchval("SELECT pg_terminate_backend($1, 10000)", pid)
