"""The composition root: settings go in, and a server or a scheduler comes out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from litestar import Litestar
from litestar.datastructures import State
from litestar.exceptions import HTTPException

from corndog.api import docs, openapi, problems, routing
from corndog.api.calls import HANDLERS
from corndog.api.services import Services
from corndog.domain.limits import Terms
from corndog.domain.task import Jitter, Phase, RetryPolicy
from corndog.hints.hints import Hints
from corndog.lifetime import in_background, on_end
from corndog.observability import logs
from corndog.scheduler.counts import fold_counts
from corndog.scheduler.leader import Leader
from corndog.scheduler.loop import Loop
from corndog.scheduler.reconcile import reconcile
from corndog.scheduler.retention import retention
from corndog.scheduler.runner import running
from corndog.scheduler.statuses import heal_statuses
from corndog.scheduler.sweep import sweep
from corndog.scheduler.unpark import unpark
from corndog.service.claims import Claims
from corndog.service.clocks import Clocks
from corndog.service.counts import Counts
from corndog.service.endings import Endings
from corndog.service.finding import ByHeads, ByHints, Find, HandOut, Scan
from corndog.service.heartbeats import Heartbeats
from corndog.service.ids import id_maker
from corndog.service.jobs import Jobs
from corndog.service.keys import Keys
from corndog.service.lookout import Lookout
from corndog.service.news import News
from corndog.service.polls import Polls
from corndog.service.reading import Reading
from corndog.service.refills import Refills
from corndog.service.registry import Registry
from corndog.service.retention import Purge, Retention, of_ended, of_keys, of_workers
from corndog.service.revivals import Revivals
from corndog.service.statuses import Statuses
from corndog.service.submits import Submits
from corndog.service.tasks import Tasks
from corndog.service.workers import Workers
from corndog.service.writes import Writes
from corndog.settings import Settings
from corndog.store.engine import Database, is_cockroach

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


def hints(settings: Settings) -> Hints | None:
    """Make the way to Redis, if there is to be one."""
    if not settings.redis_url:
        return None
    return Hints(
        settings.redis_url,
        prefix=settings.redis_prefix,
        timeout=settings.redis_timeout,
        window_size=settings.window_size,
    )


def terms(settings: Settings) -> Terms:
    """Give the limits; a payload's depends on the database."""
    payload = settings.max_payload_bytes
    if payload is None:
        is_small = bool(settings.database_url) and is_cockroach(settings.database_url)
        payload = _COCKROACH_PAYLOAD if is_small else _POSTGRESQL_PAYLOAD
    return Terms(
        payload=payload,
        metadata=settings.max_metadata_bytes,
        items=settings.max_batch_items,
        page=settings.max_page_items,
        retry=RetryPolicy(
            max_attempts=settings.default_max_attempts or None,
            backoff=timedelta(seconds=settings.default_backoff),
            backoff_max=timedelta(seconds=settings.default_backoff_max),
            backoff_multiplier=settings.default_backoff_multiplier,
            jitter=Jitter(settings.default_jitter),
        ),
    )


def purges(settings: Settings, store: Database) -> list[Purge]:
    """Give what is deleted when it was kept for as long as the settings say."""
    kept = {
        Phase.COMPLETED: timedelta(seconds=settings.retention_completed),
        Phase.FAILED: timedelta(seconds=settings.retention_failed),
        Phase.CANCELED: timedelta(seconds=settings.retention_canceled),
    }
    return [
        *of_ended(store, kept),
        *of_workers(store, timedelta(seconds=settings.retention_workers)),
        of_keys(store, timedelta(seconds=settings.idempotency_ttl)),
    ]


def document() -> bytes:
    """Write the API's document, as a server with default settings has it."""
    return openapi.document(terms(Settings()))


class House:
    """The parts that a server and the loops have in common. `store` stands in for the database of the settings."""

    def __init__(self, settings: Settings, store: Database | None = None) -> None:
        self.store = store or database(settings)
        self.hints = hints(settings)
        self.polls = Polls()
        self.statuses = Statuses(self.store)
        news = News(self.polls, self.hints, self.statuses)
        self.writes = Writes(self.store, news, settings.group_size)
        self.clocks = Clocks(self.store, self.writes)
        self.counts = Counts(self.store)
        self.registry = Registry(self.store)
        self.refills = Refills(self.store, self.hints.windows) if self.hints else None
        self.retention = Retention(purges(settings, self.store))
        self.keys = Keys(timedelta(seconds=settings.idempotency_ttl))
        self._settings = settings

    def loops(self) -> list[Loop]:
        """Give what happens because time passes."""
        loops = [
            unpark(self.clocks, self._settings.unpark_interval),
            fold_counts(self.counts),
            heal_statuses(self.statuses),
            retention(self.retention, self._settings.retention_interval),
        ]
        if self.refills:
            loops.append(reconcile(self.refills, self._settings.reconcile_interval))
        if self._settings.cleanup_interval:
            loops.append(sweep(self.clocks, self._settings.cleanup_interval))
        return loops

    def services(self) -> Services:
        """Give the use cases."""
        new_id = id_maker(is_cockroach=self.store.is_cockroach)
        size = self._settings.group_size
        tasks = Tasks(self.writes, new_id, size)
        default_timeout = timedelta(seconds=self._settings.default_work_timeout)
        hand_out = HandOut(self.store, new_id, default_timeout, tasks.give_back, size)
        find: Find = ByHeads(hand_out) if self.store.is_cockroach else Scan(hand_out)
        if self.hints and self.refills:
            find = ByHints(hand_out, self.hints.windows, self.refills, find, size)
        reading = Reading(self.store)
        heartbeats = Heartbeats(self.store, self.hints.leases if self.hints else None, size)
        return Services(
            submits=Submits(self.writes, new_id, self.keys, size),
            tasks=tasks,
            endings=Endings(self.writes, new_id, group_size=size),
            revivals=Revivals(self.writes, reading, new_id),
            claims=Claims(find, tasks, self.polls, reading, self.statuses),
            jobs=Jobs(self.store, self.writes, new_id, self.keys),
            workers=Workers(self.store, heartbeats, self.registry),
            clocks=self.clocks,
            reading=reading,
            terms=terms(self._settings),
            dispensable={"redis": self.hints.link.check} if self.hints else {},
        )

    async def close(self) -> None:
        """Close all connections."""
        await self.registry.close()
        if self.hints:
            await self.hints.link.close()
        await self.store.close()


def create_app(settings: Settings, store: Database | None = None) -> Litestar:
    """Make the server. `store` stands in for the database of the settings."""
    house = House(settings, store)
    services = house.services()

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(house.close)
            if settings.scheduler:
                await stack.enter_async_context(running(house.loops(), Leader(house.store)))
                stack.callback(house.retention.stop)
            await stack.enter_async_context(in_background(Lookout(house.polls, house.hints).run()))
            await stack.enter_async_context(house.statuses.following())
            stack.enter_context(on_end(house.polls.close))
            yield

    endpoints = [*HANDLERS, *docs.endpoints(services.terms)]
    return Litestar(
        routing.serve(endpoints, services, settings.max_body_bytes),
        state=State({"services": services}),
        lifespan=[lifespan],
        exception_handlers={
            HTTPException: problems.refuse_http,
            Exception: problems.fail,
        },
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
    house = House(settings)
    try:
        async with house.statuses.following(), running(house.loops(), Leader(house.store)):
            await stop.wait()
            house.retention.stop()
    finally:
        await house.close()
