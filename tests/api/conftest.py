"""One server for all tests of the API that need nothing special; they keep out of each other's way by queue."""

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import asyncpg
import httpx
import pytest
from sqlalchemy import make_url

from corndog.settings import Settings
from tests.api.calls import Api
from tests.servers import running_server


@pytest.fixture(scope="session")
async def api_database_url(database_admin_url: str, template: str) -> AsyncIterator[str]:
    """Give the server a migrated database; it goes with the database server at the end of the run."""
    name = f"api_{uuid4().hex[:12]}"
    admin = await asyncpg.connect(database_admin_url)
    await admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    url = make_url(database_admin_url).set(drivername="postgresql+asyncpg", database=name)
    yield url.render_as_string(hide_password=False)
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


@pytest.fixture(scope="session")
def api_url(api_database_url: str, redis_url: str) -> Iterator[str]:
    """Run the server; nothing times out on it unless a test asks for that."""
    with running_server(Settings(database_url=api_database_url, redis_url=redis_url, cleanup_interval=0)) as url:
        yield url


@pytest.fixture(scope="session")
async def api_client(api_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=api_url, timeout=30) as client:
        yield client


@pytest.fixture
def api(api_client: httpx.AsyncClient, queue: str) -> Api:
    """Talk to the server about a queue that no other test uses."""
    return Api(api_client, queue)
