"""The store that the suite is held against."""

import pytest

from corndog.store.engine import Database
from tests.store.conformance.bench import Bench


@pytest.fixture
def bench(any_database: Database) -> Bench:
    """Give an empty store, on each engine, at each isolation level."""
    return Bench(any_database)
