"""One server for all tests of the API that need nothing special; they keep out of each other's way by queue."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from corndog.settings import Settings
from tests.api.calls import Api
from tests.servers import NewDatabase, running_server


@pytest.fixture(scope="session")
async def api_database_url(new_database: NewDatabase) -> AsyncIterator[str]:
    """Give the server a migrated database."""
    async with new_database() as url:
        yield url


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
