"""Where all are run: the embedded PostgreSQL and Valkey, as corndog's benchmarks use them, empty for each run."""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import redis
from sqlalchemy import URL, make_url

from corndog import embedded
from corndog.settings import Settings
from corndog.store.migrate import upgrade
from tests.servers import free_port, start_server, stop_server

PLAIN = {"appendonly": "no"}
SYNCED = {"appendfsync": "always", "appendonly": "yes"}


class Place:
    """The servers; one run at a time."""

    def __init__(self, servers: embedded.Servers) -> None:
        self._url = make_url(servers.database_url)
        self._redis_url = servers.redis_url
        self._valkey = redis.Redis.from_url(servers.redis_url)

    @contextmanager
    def fresh(self, *, synced: bool) -> Iterator[URL]:
        """Make a database and empty Valkey for one run."""
        name = f"peer_{uuid4().hex[:8]}"
        self._valkey.flushall()
        for setting, value in (SYNCED if synced else PLAIN).items():
            self._valkey.config_set(setting, value)
        while self._valkey.info("persistence")["aof_rewrite_in_progress"]:  # the log's first file
            time.sleep(0.02)
        asyncio.run(self._order(f"CREATE DATABASE {name}"))
        try:
            yield self._url.set(database=name)
        finally:
            asyncio.run(self._order(f"DROP DATABASE {name} WITH (FORCE)"))

    @contextmanager
    def corndog(self, database: URL) -> Iterator[int]:
        """Run a corndog server process, with Redis, on a database: its port."""
        database_url = database.render_as_string(hide_password=False)
        upgrade(database_url)
        port = free_port()
        process = start_server(Settings(database_url=database_url, redis_url=self._redis_url), port)
        try:
            yield port
        finally:
            stop_server(process)

    def environment(self, database: URL) -> Mapping[str, str]:
        """Tell an adapter where all is, PostgreSQL in the words of libpq."""
        return os.environ | {
            "PGHOST": str(database.query["host"]),
            "PGPORT": str(database.query["port"]),
            "PGUSER": str(database.username),
            "PGDATABASE": str(database.database),
            "VALKEY_SOCKET": self._redis_url.removeprefix("unix://"),
        }

    async def _order(self, statement: str) -> None:
        connection = await asyncpg.connect(self._url.set(drivername="postgresql").render_as_string(hide_password=False))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def place() -> Iterator[Place]:
    """Start both servers for the time of the block."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="corndog-bench-", dir="/tmp")))
        directory.chmod(0o755)
        yield Place(stack.enter_context(embedded.start(directory / "data")))
