"""The pool and the retry helper: what is rerun, what is refused, and what is left behind by a caller that goes away."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import asyncpg
import pytest
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from corndog.domain.errors import Unavailable
from corndog.store.engine import Connection, Database, is_cockroach
from corndog.store.sqlstates import Meaning, meaning
from tests.faults import CONFLICT, plain_url
from tests.store.house import House

SLEEP = "SELECT pg_sleep(60)"


@pytest.fixture
async def small(empty_database_url: str) -> AsyncIterator[Database]:
    """Give a database with two connections and little patience."""
    database = Database(empty_database_url, pool_size=2, pool_timeout=0.3, statement_timeout=0.3, retry_deadline=0.5)
    yield database
    await database.close()


async def sessions(url: str) -> list[str]:
    """List what the other sessions of this database are doing."""
    connection = await asyncpg.connect(plain_url(url))
    try:
        rows = await connection.fetch(
            "SELECT state || ': ' || query FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return [row[0] for row in rows]
    finally:
        await connection.close()


# Reruns --------------------------------------------------------------------------


async def test_a_conflict_is_rerun_from_the_start(database: Database) -> None:
    runs = 0

    async def work(connection: Connection) -> int:
        nonlocal runs
        runs += 1
        await connection.execute("INSERT INTO leader_leases VALUES ($1, 'h', now())", f"run {runs}")
        if runs < 3:
            await connection.execute(CONFLICT)
        return runs

    assert await database.transaction(work) == 3
    assert [row[0] for row in await House(database).rows("SELECT name FROM leader_leases")] == ["run 3"]


async def test_a_transaction_is_given_up_after_its_time(small: Database) -> None:
    """Nothing that it has written is seen later than anybody expects."""

    async def work(connection: Connection) -> None:
        await connection.execute("INSERT INTO leader_leases VALUES ('late', 'h', now())")
        await asyncio.sleep(60)

    with pytest.raises(Unavailable):
        await asyncio.wait_for(small.transaction(work), 20)
    assert await House(small).rows("SELECT FROM leader_leases") == []


async def test_a_transaction_that_counts_nothing_takes_its_time(small: Database) -> None:
    async def work(connection: Connection) -> None:
        for _ in range(3):
            await connection.execute("SELECT pg_sleep(0.2)")

    await small.transaction(work, is_limited=False)
    with pytest.raises(Unavailable):
        await small.transaction(work)


async def test_the_database_ends_a_transaction_whose_process_has_stopped(database: Database) -> None:
    runs = 0

    async def work(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            await connection.execute("SET idle_in_transaction_session_timeout = 1")
            await asyncio.to_thread(time.sleep, 0.2)
        await connection.execute("INSERT INTO leader_leases VALUES ('once', 'h', now())")

    await database.transaction(work)
    assert runs == 2
    [[patience]] = await House(database).rows("SHOW idle_in_transaction_session_timeout")
    assert patience == "10s"


@pytest.mark.parametrize("way", ["run", "transaction", "once"])
async def test_a_fault_is_not_rerun_and_told_as_it_is(database: Database, way: str) -> None:
    runs = 0

    async def work(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        await connection.fetch("SELECT 1 / 0")

    with pytest.raises(asyncpg.DivisionByZeroError):
        await getattr(database, way)(work)
    assert runs == 1
    assert await database.run(lambda c: c.fetchval("SELECT 1")) == 1


async def test_an_argument_that_the_driver_refuses_is_a_fault(database: Database) -> None:
    with pytest.raises(asyncpg.DataError):
        await database.run(lambda c: c.fetch("SELECT $1::int4", "text"))


async def test_looking_once_is_rerun_after_a_conflict_only(database: Database) -> None:
    """A conflict says that the database is well: readiness must not flap with it."""
    runs = 0

    async def conflict_once(connection: Connection) -> int:
        nonlocal runs
        runs += 1
        if runs == 1:
            await connection.execute(CONFLICT)
        return runs

    async def lose(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        raise asyncpg.ConnectionDoesNotExistError("injected")

    assert await database.once(conflict_once) == 2
    with pytest.raises(Unavailable):
        await database.once(lose)
    assert runs == 3


async def test_all_connections_may_die_at_once(database: Database, empty_database_url: str) -> None:
    await asyncio.gather(*(database.run(lambda c: c.fetch("SELECT pg_sleep(0.05)")) for _ in range(10)))
    killer = await asyncpg.connect(plain_url(empty_database_url))
    await killer.fetch(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await killer.close()
    answers = await asyncio.gather(*(database.run(lambda c: c.fetchval("SELECT 1")) for _ in range(30)))
    assert answers == [1] * 30


# Refusals ------------------------------------------------------------------------


async def test_a_slow_statement_is_ended_and_not_rerun(small: Database, empty_database_url: str) -> None:
    with pytest.raises(Unavailable):
        await asyncio.wait_for(small.run(lambda c: c.fetch(SLEEP)), 5)
    assert not [session for session in await sessions(empty_database_url) if session.startswith("active")]
    assert await small.run(lambda c: c.fetchval("SELECT 1")) == 1


async def test_a_busy_pool_is_not_waited_for_without_end(small: Database) -> None:
    is_over = asyncio.Event()
    holding = [asyncio.create_task(small.run(lambda _: is_over.wait())) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await asyncio.wait_for(small.run(lambda c: c.fetch("SELECT 1")), 5)
    is_over.set()
    assert await asyncio.gather(*holding) == [True, True]
    assert await small.run(lambda c: c.fetchval("SELECT 1")) == 1


async def test_connections_go_to_those_who_have_waited_longest(empty_database_url: str) -> None:
    database = Database(empty_database_url, pool_size=1)
    order: list[str] = []
    holds = asyncio.Event()

    async def use(name: str) -> None:
        async def work(connection: Connection) -> None:
            holds.set()
            await connection.execute("SELECT 1")

        await database.run(work)
        order.append(name)

    async def come_again() -> None:
        for _ in range(20):
            await use("greedy")

    greedy = asyncio.create_task(come_again())
    await holds.wait()
    await use("patient")
    await greedy
    await database.close()

    assert order.index("patient") <= 2


async def test_a_database_that_is_not_there_is_unavailable(tmp_path: object) -> None:
    database = Database(f"postgresql+asyncpg://u@/d?host={tmp_path}", retry_deadline=0.3)
    for way in (database.run, database.transaction, database.once):
        with pytest.raises(Unavailable):
            await asyncio.wait_for(way(lambda c: c.fetch("SELECT 1")), 5)
    await database.close()


# Callers that go away --------------------------------------------------------------


async def test_a_canceled_caller_leaves_no_half_used_connection(database: Database, empty_database_url: str) -> None:
    house = House(database)

    async def work(connection: Connection) -> None:
        await connection.execute("INSERT INTO leader_leases VALUES ('half', 'h', now())")
        await connection.fetch(SLEEP)

    for _ in range(database.engine.pool.size() + 2):  # type: ignore[attr-defined]
        task = asyncio.create_task(database.transaction(work))
        while not any(SLEEP in session for session in await sessions(empty_database_url)):
            assert not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert await house.rows("SELECT * FROM leader_leases") == []
    assert not [session for session in await sessions(empty_database_url) if "in transaction" in session]
    assert len(await house.submit(queue="q")) == 1


# Sessions --------------------------------------------------------------------------


async def test_sessions_are_set_up(database: Database) -> None:
    async def show(connection: Connection) -> list[str]:
        names = ("transaction_isolation", "timezone", "statement_timeout", "application_name", "jit", "plan_cache_mode")
        return [await connection.fetchval(f"SHOW {name}") for name in names]

    assert await database.run(show) == [database.isolation, "UTC", "30s", "corndog", "off", "force_generic_plan"]

    async def show_within(connection: Connection) -> str:
        level: str = await connection.fetchval("SHOW transaction_isolation")
        return level

    assert await database.transaction(show_within) == database.isolation


def test_engines_are_told_apart() -> None:
    assert is_cockroach("cockroachdb+asyncpg://h/d")
    assert not is_cockroach("postgresql+asyncpg://h/d")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (asyncpg.SerializationError(), Meaning.CONFLICT),
        (asyncpg.DeadlockDetectedError(), Meaning.CONFLICT),
        (asyncpg.LockNotAvailableError(), Meaning.CONFLICT),
        (asyncpg.InvalidCachedStatementError(), Meaning.CONFLICT),
        (asyncpg.AdminShutdownError(), Meaning.LOST),
        (asyncpg.CrashShutdownError(), Meaning.LOST),
        (asyncpg.ConnectionDoesNotExistError(), Meaning.LOST),
        (asyncpg.StatementCompletionUnknownError(), Meaning.LOST),
        (asyncpg.InterfaceError("the connection is closed"), Meaning.LOST),
        (ConnectionResetError(), Meaning.LOST),
        (TimeoutError(), Meaning.LOST),
        (EOFError(), Meaning.LOST),
        (asyncpg.QueryCanceledError(), Meaning.BUSY),
        (asyncpg.CannotConnectNowError(), Meaning.BUSY),
        (asyncpg.TooManyConnectionsError(), Meaning.BUSY),
        (asyncpg.DiskFullError(), Meaning.BUSY),
        (asyncpg.ReadOnlySQLTransactionError(), Meaning.BUSY),
        (PoolTimeoutError(), Meaning.BUSY),
        (asyncpg.UniqueViolationError(), Meaning.FAULT),
        (asyncpg.UndefinedTableError(), Meaning.FAULT),
        (asyncpg.DataError("no such value"), Meaning.FAULT),
        (KeyError("a bug"), Meaning.FAULT),
    ],
)
def test_what_errors_mean(error: Exception, expected: Meaning) -> None:
    assert meaning(error) is expected
