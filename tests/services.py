"""The PostgreSQL and the Valkey of a test run: started once, shared by all workers of pytest-xdist.

A pytest plugin: the process that controls the run starts them and tells the workers where they are. As nothing has to
survive a test run, nothing is flushed to disk.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from corndog import embedded

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

REDIS_URL = "CORNDOG_TEST_REDIS_URL"
"""Has the whole suite run on another Redis than the embedded Valkey or, where it is empty, without any."""

FAST_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True)
class Services:
    """Where they are; the database URL is that of the superuser, as asyncpg and psql read it."""

    database_admin_url: str
    redis_url: str


SERVICES = pytest.StashKey[Services]()


@contextmanager
def running_services() -> Iterator[Services]:
    # Not below TMPDIR: as root, PostgreSQL must not live in a home directory.
    data_dir = Path(tempfile.mkdtemp(prefix="corndog-tests-", dir="/tmp"))
    try:
        with embedded.start(data_dir, FAST_SETTINGS) as servers:
            yield Services(servers.database_url.replace("+asyncpg", ""), servers.redis_url)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    # A run in the background inherits an ignored SIGINT, and so would every program that is to be sent one here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        config.stash[SERVICES] = Services(**config.workerinput["services"])
    elif not config.option.collectonly:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the run, and the services, like Ctrl-C
        stack = ExitStack()
        config.add_cleanup(stack.close)
        config.stash[SERVICES] = stack.enter_context(running_services())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: "WorkerController") -> None:
    node.workerinput["services"] = asdict(node.config.stash[SERVICES])


@pytest.fixture(scope="session")
def services(request: pytest.FixtureRequest) -> Services:
    return request.config.stash[SERVICES]


@pytest.fixture(scope="session")
def database_admin_url(services: Services) -> str:
    return services.database_admin_url


@pytest.fixture(scope="session")
def redis_url(services: Services) -> str:
    """Say which Redis the servers under test use; empty: they run without."""
    return os.environ.get(REDIS_URL, services.redis_url)


@pytest.fixture(scope="session")
def accelerator_url(redis_url: str, services: Services) -> str:
    """Give the tests that are about Redis one in any case."""
    return redis_url or services.redis_url
