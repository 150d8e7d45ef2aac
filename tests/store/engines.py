"""The engines that the store's tests run on: PostgreSQL always, CockroachDB where there is one."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
from sqlalchemy import make_url

from corndog.store.migrate import upgrade
from corndog.store.schema import metadata
from tests.faults import plain_url

COCKROACH_URL = os.environ.get("CORNDOG_TEST_COCKROACH_URL")
ENGINES = ["postgresql", *(["cockroachdb"] if COCKROACH_URL else [])]


@asynccontextmanager
async def cockroach_database() -> AsyncIterator[str]:
    """Give a migrated database of its own on the CockroachDB of the environment."""
    assert COCKROACH_URL
    name = f"test_{uuid4().hex[:12]}"
    url = make_url(COCKROACH_URL).set(drivername="cockroachdb+asyncpg", database=name)
    await execute(COCKROACH_URL, f"CREATE DATABASE {name}")
    await asyncio.to_thread(upgrade, url.render_as_string(hide_password=False))
    yield url.render_as_string(hide_password=False)
    await execute(COCKROACH_URL, f"DROP DATABASE {name} CASCADE")


async def empty(database_url: str) -> None:
    """Delete all rows."""
    await execute(database_url, "; ".join(f"DELETE FROM {table}" for table in metadata.tables))


async def execute(database_url: str, statements: str) -> None:
    connection = await asyncpg.connect(plain_url(database_url))
    try:
        await connection.execute(statements)
    finally:
        await connection.close()
