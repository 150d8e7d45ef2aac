"""The server of `corndog.app`, on a database that answers 40001 to a fifth of all statements."""

import os

from litestar import Litestar

from corndog.app import create_app
from corndog.observability import logs
from corndog.settings import Settings
from tests.faults import ConflictingDatabase

SEED = "CORNDOG_TEST_FAULT_SEED"


def from_environment() -> Litestar:
    """Make the server from environment variables; granian loads `tests.faulty_app:from_environment`."""
    settings = Settings.from_env()
    logs.configure(settings.log_level)
    store = ConflictingDatabase(
        settings.database_url,
        seed=int(os.environ.get(SEED, "0")),
        isolation=settings.isolation,
        pool_size=settings.pool_size,
        pool_timeout=settings.pool_timeout,
        statement_timeout=settings.statement_timeout,
        retry_deadline=settings.retry_deadline,
    )
    return create_app(settings, store)
