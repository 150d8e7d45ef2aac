"""Redis forgets, hangs, fills up and dies, and servers die between what they do with it: trials S9, S28 and S29.

Whatever happens to Redis, nothing that was acknowledged is lost, nothing is handed out twice, and all heals by itself.
"""

import asyncio
import operator
import os
import signal
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

import asyncpg
import httpx
import pytest
from msgspec.structs import replace
from sqlalchemy import make_url
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.domain.task import Window
from corndog.hints.hints import Hints
from corndog.settings import Settings
from tests.api.calls import Api, Fields, done
from tests.api.failpoints import Failpoints, running_failing_server
from tests.faults import plain_url
from tests.redis_servers import RedisServer, running_redis
from tests.servers import running_server

LONG = 50
"""Seconds to wait for what is to come much sooner."""

MARGIN = 20
"""Seconds beyond what a call may take on a quiet machine: this tells slow from endless, not fast from slow."""

RECONCILE = 0.5
TIMEOUT = 0.5


@pytest.fixture(scope="module")
def own_redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def hurt(own_redis: RedisServer) -> Iterator[RedisServer]:
    """Give the Redis of the servers, to be hurt; it is well again afterwards."""
    yield own_redis
    own_redis.restart()


@pytest.fixture(scope="module")
def settings(database_url: str, own_redis: RedisServer) -> Settings:
    return Settings(
        database_url=database_url, redis_url=own_redis.url, redis_timeout=TIMEOUT, reconcile_interval=RECONCILE
    )


@pytest.fixture(scope="module")
def urls(settings: Settings) -> Iterator[list[str]]:
    """Run two servers that share everything."""
    with ExitStack() as stack:
        yield [stack.enter_context(running_server(settings)) for _ in range(2)]


@pytest.fixture
async def apis(urls: list[str], queue: str) -> AsyncIterator[list[Api]]:
    async with AsyncExitStack() as stack:
        apis = [await stack.enter_async_context(talking(url, queue)) for url in urls]
        for api in apis:
            await until_status(api, "ok")
        yield apis


@pytest.fixture
def api(apis: list[Api]) -> Api:
    return apis[0]


@asynccontextmanager
async def talking(url: str, queue: str) -> AsyncIterator[Api]:
    async with httpx.AsyncClient(base_url=url, timeout=LONG + MARGIN) as client:
        yield Api(client, queue)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(plain_url(database_url))
    yield connection
    await connection.close()


async def until(condition: Callable[[], Awaitable[bool]], limit: float = 30) -> None:
    poll = AsyncRetrying(retry=retry_if_result(operator.not_), wait=wait_fixed(0.05), stop=stop_after_delay(limit))
    await poll(condition)


async def health(api: Api) -> Fields:
    """Ask whether it is ready, which it must be."""
    return done(await api.client.get("/readyz"))


async def until_status(api: Api, status: str) -> None:
    async def has_status() -> bool:
        return bool((await health(api))["status"] == status)

    await until(has_status)


async def is_degraded(api: Api) -> bool:
    """Tell whether the server says that it does without Redis, and why."""
    told = await health(api)
    if told["status"] == "ok":
        return False
    assert (told["status"], told["checks"]) == ("degraded", {"database": "ok", "redis": "unavailable"})
    [warning] = told["warnings"]
    assert warning.startswith("redis is not used now (")
    return True


async def drain(api: Api) -> list[Fields]:
    """Claim, and complete, all that is there."""
    all_claimed: list[Fields] = []
    while claimed := await api.claim(count=50):
        all_claimed += claimed
        for task in claimed:
            await api.complete(task["id"], delivery=task["delivery"])
    return all_claimed


async def everything_works(api: Api) -> None:
    """Make all kinds of calls; all of them must succeed."""
    state = {"current_state": "works"}
    held = await api.submit_held(**state)
    beats = done(await api.post("/v1/tasks/heartbeat", deliveries=[{"id": held["id"], "delivery": 1}]))["deliveries"]
    assert [beat["status"] for beat in beats] == ["held"]
    await api.update(held["id"], delivery=1, timeout=100)
    await api.release(held["id"], delivery=1)
    [held] = await api.claim(**state, wait=1)
    await api.update(held["id"], delivery=2, new_state="works")
    await api.update(held["id"], current_state="works", priority=3)
    [held] = await api.claim(**state, count=10)
    assert held["priority"] == 3
    completed = await api.complete(held["id"], delivery=3, next_task={"queue": api.queue, **state})
    assert await api.claim(current_state="nobody", wait=0.1) == []
    await api.cancel(completed["next_tasks"][0])


# S9: everything is forgotten ------------------------------------------------------------------------


async def test_holds_and_delays_outlive_a_flush(apis: list[Api], hurt: RedisServer) -> None:
    """S9."""
    api = apis[0]
    for state in ("live", "dead"):
        for _ in range(10):
            await api.submit(current_state=state, work_timeout=60)
    live, dead = [await api.claim(current_state=state, count=10) for state in ("live", "dead")]

    async def beat() -> list[Fields]:
        holds = [{"id": task["id"], "delivery": 1} for task in live]
        beats: list[Fields] = done(await api.post("/v1/tasks/heartbeat", deliveries=holds))["deliveries"]
        assert {beat["status"] for beat in beats} == {"held"}
        return beats

    await beat()
    delayed = [await api.submit(delay=1.5) for _ in range(20)]
    hurt.flush()
    polls = [asyncio.create_task(apis[number % 2].claim(wait=LONG)) for number in range(20)]
    beats = await beat()

    # Dead holders' tasks come back once, and live holders keep theirs.
    assert await api.clean_up(max(task["due_time"] for task in dead)) == 10
    assert {beat["lease_expires"] for beat in beats} == {beat["lease_expires"] for beat in await beat()}
    again = await api.claim(current_state="dead", count=50)
    assert {task["id"] for task in again} == {task["id"] for task in dead}
    assert {task["delivery"] for task in again} == {2}
    assert await api.claim(current_state="dead", count=50) == []
    for task in live:
        await api.complete(task["id"], delivery=1)
    # Delayed ones come when they are due.
    claimed = {task["id"]: datetime.fromisoformat(task["claim_time"]) for poll in polls for task in await poll}
    assert claimed.keys() == {task["id"] for task in delayed}
    late = [(claimed[task["id"]] - datetime.fromisoformat(task["due_time"])).total_seconds() for task in delayed]
    assert min(late) >= 0
    assert statistics.median(late) < 1


# S28: Redis is restarted ----------------------------------------------------------------------------


async def test_polls_that_wait_while_redis_is_restarted_get_their_tasks(apis: list[Api], hurt: RedisServer) -> None:
    """S28."""
    polls = [asyncio.create_task(apis[number % 2].claim(wait=LONG)) for number in range(10)]
    await asyncio.sleep(0.5)

    hurt.restart()
    submitted = [(await apis[number % 2].submit())["id"] for number in range(10)]

    claimed = [task["id"] for poll in polls for task in await asyncio.wait_for(poll, LONG / 2)]
    assert Counter(claimed) == Counter(submitted)
    for api in apis:
        await until_status(api, "ok")
    # And again, now that both know it.
    polls = [asyncio.create_task(apis[number % 2].claim(wait=LONG)) for number in range(4)]
    submitted = [(await apis[number % 2].submit())["id"] for number in range(4)]
    assert Counter([task["id"] for poll in polls for task in await asyncio.wait_for(poll, LONG / 2)]) == Counter(
        submitted
    )


async def test_servers_listen_again_after_redis_was_restarted(
    apis: list[Api], hurt: RedisServer, settings: Settings
) -> None:
    channel = f"{{{make_url(settings.database_url).database}}}:ready:{apis[0].queue}\0submitted"
    polls = [asyncio.create_task(api.claim(wait=LONG)) for api in apis]

    async def both_listen() -> bool:
        return bool(hurt.client.pubsub_numsub(channel)[0][1] == 2)

    await until(both_listen)
    hurt.restart()
    await until(both_listen)

    await asyncio.gather(*(apis[0].submit() for _ in polls))
    assert [len(await asyncio.wait_for(poll, LONG / 2)) for poll in polls] == [1, 1]


# S29: Redis hangs, or is full -------------------------------------------------------------------------


async def test_a_hung_redis_holds_nobody_up(apis: list[Api], hurt: RedisServer) -> None:
    """S29."""
    api = apis[0]
    before = [(await api.submit())["id"] for _ in range(20)]
    assert [task["id"] for task in await api.claim(count=2)] == before[:2]
    polls = [asyncio.create_task(server.claim(current_state="polled", wait=LONG)) for server in apis]
    hurt.pause()

    # Takes that Redis may still carry out, when it goes on.
    began = monotonic()
    claimed = [task["id"] for tasks in await asyncio.gather(*(api.claim(count=2) for _ in range(3))) for task in tasks]
    assert monotonic() - began < TIMEOUT + MARGIN
    for server in apis:
        await until_degraded(server)
    began = monotonic()
    for _ in range(100):
        await api.submit(current_state="later")
    # Had each waited for Redis, it would be five times as long.
    assert monotonic() - began < 100 * TIMEOUT / 5
    for server in apis:
        await everything_works(server)
        assert await is_degraded(server)
    await apis[1].submit(current_state="polled")
    await apis[0].submit(current_state="polled")
    assert [len(await asyncio.wait_for(poll, LONG / 2)) for poll in polls] == [1, 1]

    hurt.resume()

    for server in apis:
        await until_status(server, "ok")
        assert (await health(server))["warnings"] == []
        await everything_works(server)
    claimed += [task["id"] for task in await apis[1].claim(count=50)]
    assert Counter(claimed) == Counter(before[2:])
    assert len(await api.claim(current_state="later", count=500)) == 100


async def until_degraded(api: Api) -> None:
    async def does_without() -> bool:
        return await is_degraded(api)

    await until(does_without)


async def test_a_full_redis_is_done_without(apis: list[Api], hurt: RedisServer) -> None:
    """S29."""
    api = apis[0]
    before = [(await api.submit())["id"] for _ in range(5)]
    polls = [asyncio.create_task(server.claim(current_state="polled", wait=LONG)) for server in apis]
    hurt.fill()

    for server in apis:
        await everything_works(server)
        await until_degraded(server)
        await everything_works(server)
    during = [(await server.submit())["id"] for server in apis for _ in range(5)]
    await api.submit(current_state="polled")
    await api.submit(current_state="polled")
    assert [len(await asyncio.wait_for(poll, LONG / 2)) for poll in polls] == [1, 1]
    assert [task["id"] for task in await api.claim(count=3)] == before[:3]

    hurt.drain()

    for server in apis:
        await until_status(server, "ok")
        await everything_works(server)
    assert [task["id"] for task in await drain(api)] == before[3:] + during


@pytest.mark.parametrize("hang", [False, True])
async def test_a_server_starts_without_redis_and_finds_it_later(database_url: str, queue: str, *, hang: bool) -> None:
    with running_redis() as redis:
        if hang:
            redis.pause()
        else:
            redis.kill()
        settings = Settings(database_url=database_url, redis_url=redis.url, redis_timeout=TIMEOUT)
        with running_server(settings) as url:
            async with talking(url, queue) as api:
                await until_degraded(api)
                await everything_works(api)
                task = await api.submit()

                if hang:
                    redis.resume()
                else:
                    redis.start()

                await until_status(api, "ok")
                await everything_works(api)
                assert [claimed["id"] for claimed in await api.claim()] == [task["id"]]


# Under load -----------------------------------------------------------------------------------------


class Load:
    """Submitters, and workers that complete what they claim: each task is to be completed once.

    `is_rough` says that servers die: calls fail, and what they have claimed is swept.
    """

    def __init__(self, *, is_rough: bool = False) -> None:
        self.submitted: list[str] = []
        self.claimed: list[tuple[str, int]] = []
        self.completed: list[str] = []
        self.waits: list[timedelta] = []
        """How long each task was ready before it was handed out for the first time."""
        self._is_rough = is_rough
        self._held: set[str] = set()

    async def submit(self, api: Api, end: asyncio.Event) -> None:
        """Submit until the end, but no more than can be claimed soon."""
        most = 30 if self._is_rough else 50
        while not end.is_set():
            if len(self.submitted) - len(self.completed) < most:
                self.submitted.append((await api.submit(work_timeout=1 if self._is_rough else 0))["id"])
            await asyncio.sleep(0.005)

    async def work(self, api: Api, writer: Api) -> None:
        """Claim and complete."""
        while True:
            try:
                tasks = await api.claim(wait=2, count=2)
            except httpx.TransportError:
                if not self._is_rough:
                    raise
                await asyncio.sleep(0.02)
                continue
            for task in tasks:
                self._take(task)
            await asyncio.sleep(0)
            for task in tasks:
                await self._complete(writer, task)

    def _take(self, task: Fields) -> None:
        # After a sweep another may hold it, under another number.
        assert self._is_rough or task["id"] not in self._held
        self._held.add(task["id"])
        self.claimed.append((task["id"], task["delivery"]))
        if task["delivery"] == 1:
            ready, claimed = [datetime.fromisoformat(task[time]) for time in ("submit_time", "claim_time")]
            self.waits.append(claimed - ready)

    async def _complete(self, writer: Api, task: Fields) -> None:
        response = await writer.try_complete(task["id"], delivery=task["delivery"])
        if not self._is_rough or response.status_code != 409:
            assert done(response)["replayed"] is False
            self.completed.append(task["id"])
        self._held.discard(task["id"])

    async def until_all_are_completed(self) -> None:
        async def are_completed() -> bool:
            return len(self.completed) >= len(self.submitted)

        await until(are_completed)


@asynccontextmanager
async def under_load(
    load: Load, submitters: list[Api], workers: list[Api], writer: Api | None = None
) -> AsyncIterator[None]:
    """Keep servers busy during the block, and then until all is done."""
    end = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        submitting = [group.create_task(load.submit(api, end)) for api in submitters]
        working = [group.create_task(load.work(api, writer or api)) for api in workers]
        try:
            yield
            end.set()
            await asyncio.wait(submitting)
            await load.until_all_are_completed()
        finally:
            for task in (*submitting, *working):
                task.cancel()


async def were_completed_once(load: Load, database: "asyncpg.Connection[asyncpg.Record]", queue: str) -> None:
    """See that each task that was acknowledged was completed, and was never in two hands."""
    assert len(load.submitted) > 50
    assert Counter(load.completed) == Counter(load.submitted)
    assert max(Counter(load.claimed).values()) == 1
    archived = await database.fetch("SELECT id, current_state FROM archived_tasks WHERE queue = $1", queue)
    assert {str(row["id"]) for row in archived} == set(load.submitted)
    assert {row["current_state"] for row in archived} == {"completed"}
    assert await database.fetchval("SELECT count(*) FROM tasks WHERE queue = $1", queue) == 0


async def forget(hurt: RedisServer) -> None:
    for _ in range(40):
        await asyncio.sleep(0.2)
        hurt.flush()


async def die(hurt: RedisServer) -> None:
    for pause in (0.0, 0.3, 1.0):
        await asyncio.sleep(1)
        hurt.kill()
        await asyncio.sleep(pause)
        hurt.start()


async def hang(hurt: RedisServer) -> None:
    for pause in (TIMEOUT / 2, 2 * TIMEOUT, 3 * TIMEOUT):
        await asyncio.sleep(0.7)
        hurt.pause()
        await asyncio.sleep(pause)
        hurt.resume()


async def fill_up(hurt: RedisServer) -> None:
    for _ in range(3):
        await asyncio.sleep(0.7)
        hurt.fill()
        await asyncio.sleep(0.5)
        hurt.drain()


@pytest.mark.parametrize("suffer", [forget, die, hang, fill_up])
async def test_under_load_nothing_is_lost_or_doubled_whatever_becomes_of_redis(
    apis: list[Api],
    hurt: RedisServer,
    database: "asyncpg.Connection[asyncpg.Record]",
    queue: str,
    suffer: Callable[[RedisServer], Awaitable[None]],
) -> None:
    load = Load()
    async with under_load(load, apis * 2, apis * 8):
        await suffer(hurt)

    await were_completed_once(load, database, queue)
    assert {delivery for _, delivery in load.claimed} == {1}
    assert max(load.waits) < timedelta(seconds=RECONCILE + MARGIN)


# Servers die or stand still between a take and the claim -----------------------------------------------


@pytest.fixture
def failpoints(tmp_path: Path) -> Failpoints:
    return Failpoints(tmp_path)


@asynccontextmanager
async def failing(settings: Settings, directory: Path, queue: str) -> AsyncIterator[Api]:
    """Run a server with failpoints; the loops run elsewhere."""
    with running_failing_server(replace(settings, scheduler=False), directory) as url:
        async with talking(url, queue) as api:
            yield api


@pytest.mark.timeout(240)
async def test_servers_that_die_between_take_and_claim_hold_no_task_back(
    api: Api,
    settings: Settings,
    tmp_path: Path,
    failpoints: Failpoints,
    database: "asyncpg.Connection[asyncpg.Record]",
    queue: str,
) -> None:
    load = Load(is_rough=True)

    async def sweep() -> None:
        # What was claimed by a server that died before it answered is held by nobody.
        while True:
            await api.clean_up(None)
            await asyncio.sleep(0.3)

    async def have_died() -> bool:
        return failpoints.kills >= 100

    async with AsyncExitStack() as stack:
        dying = [await stack.enter_async_context(failing(settings, tmp_path, queue)) for _ in range(3)]
        failpoints.kill(enabled=True)
        sweeping = asyncio.create_task(sweep())
        async with under_load(load, [api], dying * 3, writer=api):
            await until(have_died, limit=180)
            failpoints.kill(enabled=False)
        sweeping.cancel()

    await were_completed_once(load, database, queue)


@pytest.mark.parametrize("wait", [0, 1])
async def test_a_server_that_stands_still_in_the_middle_of_a_claim_holds_no_task_back(
    api: Api, settings: Settings, tmp_path: Path, failpoints: Failpoints, queue: str, wait: float
) -> None:
    async with failing(settings, tmp_path, queue) as paused:
        submitted = [(await api.submit())["id"] for _ in range(5)]
        failpoints.stop_once()
        claim = asyncio.create_task(paused.claim(count=3, wait=wait))
        pid = await asyncio.to_thread(failpoints.until_stopped)
        try:
            claimed: list[Fields] = []
            async with asyncio.timeout(RECONCILE + MARGIN):
                while len(claimed) < 5:
                    claimed += await api.claim(count=5, wait=1)
        finally:
            os.kill(pid, signal.SIGCONT)

        # The paused server gets nothing, and takes nothing from anybody.
        assert await claim == []
        assert Counter(task["id"] for task in claimed) == Counter(submitted)
        for task in claimed:
            assert await api.get(task["id"]) == {name: task[name] for name in await api.get(task["id"])}
            assert (await api.complete(task["id"], delivery=1))["replayed"] is False
        assert await api.claim(count=5) == await paused.claim(count=5) == []


async def test_a_server_that_stands_still_offers_again_what_it_took_and_nobody_had(
    api: Api, settings: Settings, tmp_path: Path, failpoints: Failpoints, queue: str
) -> None:
    async with failing(settings, tmp_path, queue) as paused:
        [low, high] = [(await api.submit(priority=priority))["id"] for priority in (1, 2)]
        failpoints.stop_once()
        claim = asyncio.create_task(paused.claim(count=1))
        pid = await asyncio.to_thread(failpoints.until_stopped)
        # Of what it took, one ends, and comes again in another state, at another priority.
        await api.update(high, current_state="submitted", priority=0)
        os.kill(pid, signal.SIGCONT)

        # Its hint is wrong by now: it looks further.
        assert [task["id"] for task in await claim] == [low]
        assert [task["id"] for task in await api.claim(count=5)] == [high]


async def test_a_lost_hint_is_found_though_nobody_leads(
    settings: Settings, database: "asyncpg.Connection[asyncpg.Record]", queue: str
) -> None:
    """A leader that died keeps its lease for seconds, and one that lives may be without Redis."""
    await database.execute(
        "INSERT INTO leader_leases VALUES ('scheduler', 'dead', now() + interval '1 day')"
        " ON CONFLICT (name) DO UPDATE SET holder = 'dead', expires = excluded.expires"
    )
    hints = Hints(
        settings.redis_url, prefix=make_url(settings.database_url).database or "", timeout=LONG, window_size=100
    )
    try:
        with running_server(settings) as url:
            async with talking(url, queue) as api:
                assert await api.claim() == []
                task = await api.submit()
                [lost] = (await hints.windows.take([Window(queue, "submitted")], 5)).candidates
                [claimed] = await asyncio.wait_for(api.claim(wait=LONG), LONG)
                assert claimed["id"] == task["id"] == str(lost.id)
    finally:
        await hints.link.close()
        await database.execute("DELETE FROM leader_leases")
