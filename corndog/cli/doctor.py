"""`corndog doctor`: what is wrong around a server, and what to do about it."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from corndog.cli.environment import DATABASE_ERRORS, read_settings, schema_versions, unreachable
from corndog.cli.output import Failed, show_json, show_table
from corndog.service.reading import OVERDUE_WARNING
from corndog.settings import Settings
from corndog.store.reading import oldest_overdue

if TYPE_CHECKING:
    from corndog.store.engine import Connection

NO_EVICTION = "noeviction"
PATIENCE = 5.0  # seconds for anything to answer
CLOCK_TOLERANCE = timedelta(seconds=1)
FACTS = "SELECT clock_timestamp(), version(), current_setting('transaction_isolation')"


@dataclass(frozen=True)
class Check:
    """What was looked at, how it is, and what to do about it."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Facts:
    """What the database says of itself."""

    version: str
    isolation: str
    clock_difference: timedelta


def run(*, as_json: bool) -> None:
    """Check everything and report.

    Raises:
        Failed: something is broken.

    """
    checks = list(examine())
    if as_json:
        show_json([asdict(check) for check in checks])
    else:
        show_table(("CHECK", "STATUS", "FOUND", "ADVICE"), [(c.name, c.status, c.found, c.advice) for c in checks])
    broken = [check.name for check in checks if check.status == "fail"]
    if broken:
        raise Failed(f"broken: {', '.join(broken)}")


def examine() -> Iterator[Check]:
    """Look at one thing after the other; what can't be looked at without an earlier one is left out."""
    try:
        settings = read_settings()
    except Failed as failed:
        yield Check("settings", "fail", str(failed), "`corndog settings` lists them all")
        return
    yield Check("settings", "ok", "valid")
    yield from _examine_database(settings)
    yield _examine_redis(settings.redis_url)


def _examine_database(settings: Settings) -> Iterator[Check]:
    url = settings.database_url
    try:
        facts = asyncio.run(_facts(settings))
    except DATABASE_ERRORS as error:
        yield Check("database", "fail", unreachable(url, error), "start it, or correct CORNDOG_DATABASE_URL")
        return
    yield Check("database", "ok", re.split(r" on | \(", facts.version)[0])
    if facts.isolation == settings.isolation:
        yield Check("isolation", "ok", facts.isolation)
    else:
        advice = "right, and slower: allow READ COMMITTED in the database's settings"
        yield Check("isolation", "warn", f"{facts.isolation} instead of {settings.isolation}", advice)
    yield _examine_clock(facts.clock_difference)
    current, head = schema_versions(url)
    if current != head:
        yield Check("schema", "fail", f"{current or 'missing'}; {head} is needed", "run `corndog migrate`")
        return
    yield Check("schema", "ok", head)
    yield _examine_sweep(asyncio.run(_overdue(settings)))


def _examine_clock(difference: timedelta) -> Check:
    found = f"this machine and the database differ by {difference.total_seconds():.3f} s"
    if difference <= CLOCK_TOLERANCE:
        return Check("clock", "ok", found)
    return Check("clock", "warn", found, "synchronise the clocks (NTP); the database's counts")


def _examine_sweep(overdue: timedelta | None) -> Check:
    if overdue is None:
        return Check("sweep", "ok", "no hold is overdue")
    found = f"the oldest hold has been overdue for {overdue.total_seconds():.0f} s"
    if overdue <= OVERDUE_WARNING:
        return Check("sweep", "ok", found)
    advice = "nothing times tasks out: set CORNDOG_CLEANUP_INTERVAL, or call `corndog timeout` regularly"
    return Check("sweep", "warn", found, advice)


def _examine_redis(url: str) -> Check:
    if not url:
        return Check("redis", "ok", "not configured: everything works, but slower", "set CORNDOG_REDIS_URL for speed")
    try:
        with redis.Redis.from_url(url, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), retries=0)) as client:
            policy = client.info("memory").get("maxmemory_policy", NO_EVICTION)
    except ValueError as error:
        return Check("redis", "fail", f"CORNDOG_REDIS_URL is not Redis's URL: {error}", "correct CORNDOG_REDIS_URL")
    except (redis.RedisError, OSError) as error:
        advice = "everything works, but slower: start it, or correct CORNDOG_REDIS_URL"
        return Check("redis", "warn", f"does not answer: {error}", advice)
    if policy != NO_EVICTION:
        advice = "use `maxmemory-policy noeviction`: an evicted key can hide ready tasks until windows are reconciled"
        return Check("redis", "warn", f"answers, and may evict keys ({policy})", advice)
    return Check("redis", "ok", "answers")


async def _facts(settings: Settings) -> Facts:
    async with _connection(settings) as connection:
        before = datetime.now(UTC)
        now, version, isolation = (await connection.execute(text(FACTS))).one()
        after = datetime.now(UTC)
    # The answer was given at some time between the two: only what lies outside is certainly a difference.
    return Facts(version, isolation, max(before - now, now - after, timedelta()))


async def _overdue(settings: Settings) -> timedelta | None:
    async with _connection(settings) as connection:
        raw = (await connection.get_raw_connection()).driver_connection
        found = await oldest_overdue(cast("Connection", raw))
    return None if found is None else found[1] - found[0]


@asynccontextmanager
async def _connection(settings: Settings) -> AsyncIterator[AsyncConnection]:
    """Connect as the server does, but with little patience."""
    session = {"default_transaction_isolation": settings.isolation}
    arguments = {"timeout": PATIENCE, "command_timeout": PATIENCE, "server_settings": session}
    engine = create_async_engine(settings.database_url, poolclass=NullPool, connect_args=arguments)
    async with engine.connect() as connection:
        yield connection
