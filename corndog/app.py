"""The composition root: settings go in, and a server or a scheduler comes out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from litestar import Litestar
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from redis.asyncio import Redis

from corndog.api import docs, health, openapi, problems, queues, routing, tasks
from corndog.api.services import Check, Services
from corndog.domain.errors import CorndogError
from corndog.domain.limits import Sizes
from corndog.observability import logs
from corndog.scheduler.leader import Leader
from corndog.scheduler.loop import Loop
from corndog.scheduler.runner import running
from corndog.scheduler.sweep import sweep
from corndog.scheduler.unpark import unpark
from corndog.service.claims import Claims, strategy
from corndog.service.clocks import Clocks
from corndog.service.ids import id_maker
from corndog.service.reading import Reading
from corndog.service.tasks import Tasks
from corndog.settings import Settings
from corndog.store.engine import Database, is_cockroach

REDIS_TIMEOUT = 1.0
"""Seconds that a call to Redis may take."""

_POSTGRESQL_PAYLOAD = 16 * 1024 * 1024
_COCKROACH_PAYLOAD = 1024 * 1024


def database(settings: Settings) -> Database:
    """Make the pool; it connects when it is first used."""
    return Database(
        settings.database_url,
        isolation=settings.isolation,
        pool_size=settings.pool_size,
        pool_timeout=settings.pool_timeout,
        statement_timeout=settings.statement_timeout,
        retry_deadline=settings.retry_deadline,
    )


def sizes(settings: Settings) -> Sizes:
    """Give the limits; a payload's depends on the database."""
    payload = settings.max_payload_bytes
    if payload is None:
        is_small = bool(settings.database_url) and is_cockroach(settings.database_url)
        payload = _COCKROACH_PAYLOAD if is_small else _POSTGRESQL_PAYLOAD
    return Sizes(
        payload=payload,
        metadata=settings.max_metadata_bytes,
        items=settings.max_batch_items,
        page=settings.max_page_items,
    )


def document() -> bytes:
    """Write the API's document, as a server with default settings has it."""
    return openapi.document(sizes(Settings()))


def create_app(settings: Settings, store: Database | None = None) -> Litestar:
    """Make the server. `store` stands in for the database of the settings."""
    store = store or database(settings)
    new_id = id_maker(is_cockroach=store.is_cockroach)
    clocks = Clocks(store)
    redis = Redis.from_url(settings.redis_url, socket_timeout=REDIS_TIMEOUT) if settings.redis_url else None
    services = Services(
        tasks=Tasks(store, new_id),
        claims=Claims(
            store,
            new_id,
            timedelta(seconds=settings.default_work_timeout),
            strategy(is_cockroach=store.is_cockroach),
        ),
        clocks=clocks,
        reading=Reading(store),
        sizes=sizes(settings),
        dispensable={"redis": _ping(redis)} if redis else {},
    )

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        try:
            if settings.scheduler:
                async with running(_loops(clocks, settings), Leader(store)):
                    yield
            else:
                yield
        finally:
            if redis:
                await redis.aclose()
            await store.close()

    handlers = [*tasks.HANDLERS, *queues.HANDLERS, *health.HANDLERS, *docs.handlers(services.sizes)]
    return Litestar(
        [*routing.options(handlers), *handlers],
        state=State({"services": services}),
        lifespan=[lifespan],
        exception_handlers={
            CorndogError: problems.refuse,
            HTTPException: problems.refuse_http,
            Exception: problems.fail,
        },
        request_max_body_size=settings.max_body_bytes,
        openapi_config=None,
        logging_config=None,
    )


def from_environment() -> Litestar:
    """Make the server from environment variables: what a server process loads."""
    settings = Settings.from_env()
    logs.configure(settings.log_level)
    return create_app(settings)


async def run_scheduler(settings: Settings, stop: asyncio.Event) -> None:
    """Run the loops alone, until `stop` is set."""
    store = database(settings)
    try:
        async with running(_loops(Clocks(store), settings), Leader(store)):
            await stop.wait()
    finally:
        await store.close()


def _loops(clocks: Clocks, settings: Settings) -> list[Loop]:
    loops = [unpark(clocks, settings.unpark_interval)]
    if settings.cleanup_interval:
        loops.append(sweep(clocks, settings.cleanup_interval))
    return loops


def _ping(redis: Redis) -> Check:
    async def check() -> str:
        await redis.ping()
        return "ok"

    return check
