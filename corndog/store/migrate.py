"""The schema's version: Alembic, run from code, with the scripts of `migrations/`."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool
from sqlalchemy.ext.asyncio import create_async_engine

_T = TypeVar("_T")
_PACKAGE = Path(__file__).parent.parent


def scripts() -> Path:
    """Find the migrations: within the package where it is installed, beside it in a checkout."""
    installed = _PACKAGE / "migrations"
    return installed if installed.exists() else _PACKAGE.parent / "migrations"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    return config


def upgrade(database_url: str) -> None:
    """Bring the schema to the newest version; does nothing where it already is."""

    def run(connection: Connection) -> None:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    asyncio.run(_with_connection(database_url, run))


def current_and_head(database_url: str) -> tuple[str | None, str]:
    """Tell which version the database has, and which this program needs."""
    return asyncio.run(_with_connection(database_url, _current)), head()


def head() -> str:
    """Tell which version this program needs."""
    version = ScriptDirectory.from_config(_config()).get_current_head()
    assert version is not None
    return version


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


async def _with_connection(database_url: str, work: Callable[[Connection], _T]) -> _T:
    engine = create_async_engine(database_url, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            result = await connection.run_sync(work)
            await connection.commit()
            return result
    finally:
        await engine.dispose()
