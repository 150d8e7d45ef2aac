"""What all tests share: a database of their own, and real servers on it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
import httpx
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from sqlalchemy import make_url

from corndog.settings import Settings
from corndog.store.engine import Database
from corndog.store.migrate import upgrade
from corndog.store.schema import metadata
from tests.servers import NewDatabase, running_server

pytest_plugins = ["tests.services"]

# The machine may be busy: what is found counts, not how fast.
hypothesis_settings.register_profile(
    "corndog", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("corndog")


async def _administer(admin_url: str, statement: str) -> None:
    connection = await asyncpg.connect(admin_url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _url_of(admin_url: str, name: str) -> str:
    url = make_url(admin_url).set(drivername="postgresql+asyncpg", database=name)
    return url.render_as_string(hide_password=False)


@pytest.fixture(scope="session")
async def template(database_admin_url: str) -> str:
    """Name a migrated database that others are copied from."""
    name = f"template_{uuid4().hex[:12]}"
    await _administer(database_admin_url, f"CREATE DATABASE {name}")
    await asyncio.to_thread(upgrade, _url_of(database_admin_url, name))
    return name


@pytest.fixture(scope="session")
def new_database(database_admin_url: str, template: str) -> NewDatabase:
    """Give the way to a migrated database of one's own."""

    @asynccontextmanager
    async def make() -> AsyncIterator[str]:
        name = f"test_{uuid4().hex[:12]}"
        await _administer(database_admin_url, f"CREATE DATABASE {name} TEMPLATE {template}")
        yield _url_of(database_admin_url, name)
        await _administer(database_admin_url, f"DROP DATABASE {name} WITH (FORCE)")

    return make


@pytest.fixture(scope="module")
async def database_url(new_database: NewDatabase) -> AsyncIterator[str]:
    """Give a module a database of its own."""
    async with new_database() as url:
        yield url


@pytest.fixture
async def empty_database_url(database_url: str) -> str:
    """Give a test its module's database, emptied."""
    tables = ", ".join(metadata.tables)
    await _administer(database_url.replace("+asyncpg", ""), f"TRUNCATE {tables}")
    return database_url


@pytest.fixture(params=["read committed", "serializable"], ids=["rc", "ssi"])
async def database(request: pytest.FixtureRequest, empty_database_url: str) -> AsyncIterator[Database]:
    """Give a test an empty store, at each isolation level."""
    store = Database(empty_database_url, isolation=request.param)
    yield store
    await store.close()


@pytest.fixture(scope="module")
def server_settings(database_url: str, redis_url: str) -> Settings:
    """Say how a module's server is set up."""
    return Settings(database_url=database_url, redis_url=redis_url, cleanup_interval=1.0)


@pytest.fixture(scope="module")
def server_url(server_settings: Settings) -> Iterator[str]:
    """Run a real server for a module; tests keep out of each other's way by queue."""
    with running_server(server_settings) as url:
        yield url


@pytest.fixture
async def client(server_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Talk to the module's server."""
    async with httpx.AsyncClient(base_url=server_url, timeout=30) as client:
        yield client


@pytest.fixture
def queue() -> str:
    """Name a queue that no other test uses."""
    return f"queue-{uuid4().hex[:12]}"
