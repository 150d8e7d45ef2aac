"""What a command of the server needs before it can start: its settings, and a database that is ready."""

import asyncpg
from alembic.util import CommandError
from redis.asyncio import ConnectionPool
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from corndog.cli.output import Failed
from corndog.settings import Settings, SettingsError
from corndog.store import migrate

# The driver takes a URL's parameters for arguments of its own; what it doesn't know is a TypeError, a port of 99999 an
# OverflowError.
DATABASE_ERRORS = (
    OSError,
    SQLAlchemyError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    TypeError,
    ValueError,
    OverflowError,
)
DIALECTS = ("postgresql+asyncpg", "cockroachdb+asyncpg")


def read_settings() -> Settings:
    """Read the settings of a command that uses the database.

    Raises:
        Failed: one is wrong, or there is no usable database URL.

    """
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        raise Failed(str(error)) from None
    try:
        dialect = make_url(settings.database_url).drivername if settings.database_url else None
    except ArgumentError:
        raise Failed("CORNDOG_DATABASE_URL is not a database's URL") from None
    if dialect is None:
        raise Failed("CORNDOG_DATABASE_URL is not set; `corndog dev` brings its own database")
    if dialect not in DIALECTS:
        raise Failed(f"CORNDOG_DATABASE_URL starts with {dialect}://; it must be one of {', '.join(DIALECTS)}")
    return settings


def require_redis_url(url: str) -> None:
    """Check that Redis, if it is to be used, has a URL that a client can read.

    Raises:
        Failed: it has not.

    """
    try:
        if url:
            ConnectionPool.from_url(url).make_connection()
    except (ValueError, TypeError) as error:
        raise Failed(f"CORNDOG_REDIS_URL is not Redis's URL: {error}") from None


def require_ready_database(url: str) -> None:
    """Check that the database answers and has the schema of this program.

    Raises:
        Failed: it does not; the message says what to do.

    """
    current, head = schema_versions(url)
    if current != head:
        raise Failed(f"the database's schema is {current or 'missing'}, and {head} is needed: run `corndog migrate`")


def upgrade(url: str) -> None:
    """Bring the database to the schema of this program.

    Raises:
        Failed: it could not be brought there; trying again does no harm.

    """
    try:
        migrate.upgrade(url)
    except (*DATABASE_ERRORS, CommandError) as error:
        raise Failed(f"the database's schema can't be brought to {migrate.head()}: {error}") from None


def schema_versions(url: str) -> tuple[str | None, str]:
    """Tell which schema the database has, and which one this program needs.

    Raises:
        Failed: the database does not answer.

    """
    try:
        return migrate.current_and_head(url)
    except DATABASE_ERRORS as error:
        raise Failed(unreachable(url, error)) from None


def unreachable(url: str, error: BaseException) -> str:
    """Say that the database does not answer, and why, without its password."""
    return f"the database {make_url(url).render_as_string()} does not answer: {str(error) or type(error).__name__}"
