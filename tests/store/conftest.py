"""What the store's tests share.

`database` and `house` are PostgreSQL's; `any_…` are those of each engine that there is.
"""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from corndog.hints.hints import Hints
from corndog.store.engine import Database
from tests.store.engines import ENGINES, cockroach_database, empty
from tests.store.house import STRATEGIES, House


@pytest.fixture
async def hints(accelerator_url: str) -> AsyncIterator[Hints]:
    """Give hints that nobody else uses, in windows so small that their edges matter."""
    hints = Hints(accelerator_url, prefix=f"test-{uuid4().hex}", timeout=30, window_size=3)
    yield hints
    await hints.link.close()


@pytest.fixture
def house(database: Database, hints: Hints) -> House:
    """Give the use cases on an empty database, at each isolation level."""
    return House(database, hints=hints)


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    """Name each way of finding tasks to claim."""
    name: str = request.param
    return name


@pytest.fixture(scope="module", params=ENGINES)
async def any_url(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[str]:
    """Give a module a database of its own on each engine."""
    if request.param == "postgresql":
        yield database_url
    else:
        async with cockroach_database() as url:
            yield url


@pytest.fixture(params=["read committed", "serializable"], ids=["rc", "ssi"])
async def any_database(request: pytest.FixtureRequest, any_url: str) -> AsyncIterator[Database]:
    """Give a test an empty store on each engine, at each isolation level."""
    await empty(any_url)
    store = Database(any_url, isolation=request.param)
    yield store
    await store.close()


@pytest.fixture
def any_house(any_database: Database, hints: Hints) -> House:
    """Give the use cases on an empty database on each engine, at each isolation level."""
    return House(any_database, hints=hints)
