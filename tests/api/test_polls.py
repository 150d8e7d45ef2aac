"""Long polls: claims that wait for tasks. Over HTTP, and inside one process, where it can be told what wakes a poll."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import TypeAlias
from uuid import UUID

import asyncpg
import httpx
import pytest
import redis
from msgspec.structs import replace
from sqlalchemy import make_url

from corndog.api.services import Services
from corndog.app import House, create_app
from corndog.domain.task import Claim, Window
from corndog.observability import metrics
from corndog.service import lookout
from corndog.service.polls import Caller, Polls
from corndog.settings import Settings
from corndog.store.engine import Database
from corndog.store.statements import load
from tests.api.calls import Api, Fields, refused
from tests.api.wires import HoldUp, Wire, until
from tests.faults import CountingDatabase, plain_url
from tests.servers import NewDatabase, running_server

LONG = 50
"""Seconds to wait for what is to come much sooner."""

Trigger: TypeAlias = Callable[[], Awaitable[object]]


# What wakes a poll: each prepares, and gives what is then to make a task ready -----------------------


async def submit(api: Api) -> Trigger:
    return api.submit


async def next_task(api: Api) -> Trigger:
    held = await api.submit_held(current_state="before")
    return lambda: api.complete(held["id"], delivery=1, next_task={"queue": api.queue})


async def release(api: Api) -> Trigger:
    held = await api.submit_held()
    return lambda: api.release(held["id"], delivery=1)


async def sweep(api: Api) -> Trigger:
    await api.submit_held(work_timeout=60)
    return api.clean_up


async def unparking(api: Api) -> Trigger:
    return lambda: api.submit(delay=0.3)


async def update_of_a_held_task(api: Api) -> Trigger:
    held = await api.submit_held(current_state="before")
    return lambda: api.update(held["id"], delivery=1, new_state="submitted")


async def update_of_a_parked_task(api: Api) -> Trigger:
    parked = await api.submit(delay=1000)
    return lambda: api.update(parked["id"], current_state="submitted-scheduled", new_state="submitted")


async def update_of_a_ready_task(api: Api) -> Trigger:
    ready = await api.submit(current_state="before")
    return lambda: api.update(ready["id"], current_state="before", new_state="submitted")


WAYS = [
    submit,
    next_task,
    release,
    sweep,
    unparking,
    update_of_a_held_task,
    update_of_a_parked_task,
    update_of_a_ready_task,
]


# Over HTTP ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["redis", "without redis"])
def server_settings(request: pytest.FixtureRequest, database_url: str, accelerator_url: str) -> Settings:
    return Settings(database_url=database_url, redis_url=accelerator_url if request.param == "redis" else "")


WITH_REDIS = pytest.mark.parametrize("server_settings", ["redis"], indirect=True)
"""For what there is only with Redis."""


@pytest.fixture
def api(client: httpx.AsyncClient, queue: str) -> Api:
    return Api(client, queue)


async def test_a_ready_task_is_answered_at_once_though_more_were_asked_for(api: Api) -> None:
    task = await api.submit()

    began = monotonic()
    claimed = await api.claim(wait=LONG, count=5)

    assert [claim["id"] for claim in claimed] == [task["id"]]
    assert monotonic() - began < LONG / 2


async def test_it_is_empty_after_the_wait(api: Api) -> None:
    began = monotonic()

    assert await api.claim(wait=0.4) == []

    assert 0.4 <= monotonic() - began < LONG / 2


@pytest.mark.parametrize("wait", [-1, -0.001, 60.001, 1e300, "1", None, [], True])
async def test_other_waits_are_refused(api: Api, wait: object) -> None:
    await api.submit()

    refused(await api.try_claim(wait=wait), 400, "invalid", "wait")


@pytest.mark.parametrize("wait", [0, 0.0, 1e-300, 60, 60.0])
async def test_waits_of_up_to_a_minute_are_allowed(api: Api, wait: float) -> None:
    await api.submit()

    assert len(await api.claim(wait=wait)) == 1


async def test_nothing_is_waited_for_without_a_wait(api: Api) -> None:
    assert await api.claim() == []
    assert await api.claim(wait=0) == []


@pytest.mark.parametrize("way", WAYS)
async def test_it_is_woken_by_all_that_makes_a_task_ready(api: Api, way: Callable[[Api], Awaitable[Trigger]]) -> None:
    make_ready = await way(api)
    poll = asyncio.create_task(api.claim(wait=LONG))
    await asyncio.sleep(0.1)

    await make_ready()

    [task] = await asyncio.wait_for(poll, LONG / 2)
    assert (task["phase"], task["home_state"]) == ("held", "submitted")


async def test_it_waits_for_several_queues(api: Api) -> None:
    queues = [f"{api.queue}-{letter}" for letter in "abc"]
    polls = [asyncio.create_task(api.claim(queues=queues, wait=LONG)) for _ in queues]
    for queue in reversed(queues):
        await api.submit(queue=queue)

    claimed = [await poll for poll in polls]

    assert sorted(task["queue"] for [task] in claimed) == queues


async def test_overrides_apply_to_what_is_waited_for(api: Api) -> None:
    poll = asyncio.create_task(api.claim(wait=LONG, override_current_state="mine", override_timeout=7, worker_id="w"))
    await api.submit(payload={"a": 1})

    [task] = await poll

    assert (task["current_state"], task["timeout"], task["held_by"]) == ("mine", 7, "w")
    assert task["payload"] == {"a": 1}


async def test_many_polls_share_few_tasks(api: Api) -> None:
    polls = [asyncio.create_task(api.claim(wait=4)) for _ in range(40)]
    submitted = [(await api.submit())["id"] for _ in range(15)]

    claimed = [task["id"] for poll in polls for task in await poll]

    assert Counter(claimed) == Counter(submitted)


# Clients that hang up -------------------------------------------------------------------------------


async def test_a_client_that_hangs_up_while_it_waits_never_claims(api: Api) -> None:
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(Wire(api.client)) for _ in range(10)]
        for wire in wires:
            await wire.send(queue=api.queue, wait=LONG)
        await asyncio.sleep(0.2)
        for wire in wires:
            await wire.hang_up()
    task = await api.submit()

    # Longer than any poll that is left would go without a look.
    await asyncio.sleep(2.5)

    assert await api.get(task["id"]) == task
    assert (task["phase"], task["delivery"]) == ("ready", 0)


async def runs_of(database_url: str, task: Fields) -> list[tuple[int, str]]:
    database = await asyncpg.connect(plain_url(database_url))
    query = "SELECT delivery, outcome FROM task_runs WHERE task_id = $1 ORDER BY delivery"
    runs = [tuple(row) for row in await database.fetch(query, UUID(task["id"]))]
    await database.close()
    return runs


def is_back_home(task: Fields, submitted: Fields) -> bool:
    unchanged = ("home_state", "auto_target_state", "priority", "submit_time", "attempt", "lost")
    return all(task[name] == submitted[name] for name in unchanged)


@pytest.mark.parametrize("wait", [0, LONG])
async def test_one_that_hangs_up_before_its_answer_has_its_tasks_released(
    api: Api, database_url: str, wait: float
) -> None:
    submitted = [await api.submit(priority=priority) for priority in (3, 2, 1)]
    async with HoldUp(database_url, "tasks") as claims, Wire(api.client) as wire:
        await wire.send(queue=api.queue, wait=wait, count=3, worker_id="gone")
        await claims.until_one_waits()
        await wire.hang_up()

    async def are_released() -> bool:
        return [await runs_of(database_url, task) for task in submitted] == [[(1, "released")]] * 3

    await until(are_released)

    for task in submitted:
        now = await api.get(task["id"])
        assert is_back_home(now, task)
        assert (now["phase"], now["current_state"], now["delivery"], now["held_by"], now["due_time"]) == (
            *("ready", "submitted", 1, None, None),
        )
    again = await api.claim(count=3)
    assert [(task["id"], task["delivery"]) for task in again] == [(task["id"], 2) for task in submitted]


async def test_what_one_hung_up_on_goes_to_the_next_that_waits(api: Api, database_url: str) -> None:
    submitted = await api.submit()
    async with HoldUp(database_url, "task_runs") as releases:
        async with HoldUp(database_url, "tasks") as claims, Wire(api.client) as wire:
            await wire.send(queue=api.queue, wait=LONG)
            await claims.until_one_waits()
            await wire.hang_up()
        await releases.until_one_waits()
        poll = asyncio.create_task(api.claim(wait=LONG))
        await asyncio.sleep(0.1)

    [task] = await asyncio.wait_for(poll, LONG / 2)

    assert (task["id"], task["delivery"], task["attempt"], task["lost"]) == (submitted["id"], 2, 0, 0)
    assert await runs_of(database_url, task) == [(1, "released")]


# Across processes -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_url(server_settings: Settings) -> Iterator[str]:
    with running_server(server_settings) as url:
        yield url


async def test_a_task_is_waited_for_at_another_server(api: Api, other_url: str) -> None:
    async with httpx.AsyncClient(base_url=other_url, timeout=LONG + 10) as client:
        other = Api(client, api.queue)
        for _ in range(3):
            poll = asyncio.create_task(other.claim(wait=LONG))
            task = await api.submit()
            [claimed] = await asyncio.wait_for(poll, LONG / 2)
            assert (claimed["id"], claimed["delivery"]) == (task["id"], 1)


async def test_polls_of_two_servers_share_tasks(api: Api, other_url: str) -> None:
    async with httpx.AsyncClient(base_url=other_url, timeout=LONG + 10) as client:
        both = [api, Api(client, api.queue)]
        polls = [asyncio.create_task(both[number % 2].claim(wait=5)) for number in range(20)]
        submitted = [(await both[number % 3 % 2].submit())["id"] for number in range(12)]

        claimed = [task["id"] for poll in polls for task in await poll]

        assert Counter(claimed) == Counter(submitted)


# Inside a process: nobody looks by itself ------------------------------------------------------------


class Inside:
    """A server in this process."""

    def __init__(self, api: Api, services: Services, prefix: str) -> None:
        self.api = api
        self.services = services
        self.window = Window(api.queue, "submitted")
        self._channel = f"{{{prefix}}}:ready:{api.queue}\0submitted"

    @property
    def polls(self) -> Polls:
        return self.services.claims._polls

    async def until_waiting(self, number: int = 1) -> None:
        """Wait until so many polls wait, and go on doing so."""
        steady = 0

        async def is_steady() -> bool:
            nonlocal steady
            steady = steady + 1 if len(self.polls.first(self.window, number + 1)) == number else 0
            return steady > 15

        await until(is_steady)

    async def until_listening(self, redis_url: str) -> None:
        """Wait until the server hears of this queue's tasks from others."""
        with redis.Redis.from_url(redis_url) as client:

            async def is_listening() -> bool:
                return bool(client.pubsub_numsub(self._channel)[0][1] == 1)

            await until(is_listening)


@asynccontextmanager
async def inside(settings: Settings, queue: str, store: Database | None = None) -> AsyncIterator[Inside]:
    app = create_app(settings, store)
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    async with app.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://inside") as client:
        server = Inside(Api(client, queue), app.state.services, settings.redis_prefix)
        try:
            yield server
        finally:
            # Whoever waits still is answered before the connections are closed.
            server.polls.close()
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
async def inner_database_url(new_database: NewDatabase) -> AsyncIterator[str]:
    """Give the servers of this process a database that no other server's loops work on."""
    async with new_database() as url:
        yield url


@pytest.fixture
def inner_settings(server_settings: Settings, inner_database_url: str) -> Settings:
    prefix = make_url(inner_database_url).database or ""
    return replace(server_settings, database_url=inner_database_url, redis_prefix=prefix)


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody look by itself: polls hear of tasks by being told, or never."""
    monkeypatch.setattr(lookout, "_INTERVAL", (3600.0, 3600.0))


@pytest.mark.parametrize("way", WAYS)
async def test_it_is_told_of_all_that_makes_a_task_ready(
    inner_settings: Settings, queue: str, no_looks: None, way: Callable[[Api], Awaitable[Trigger]]
) -> None:
    async with inside(inner_settings, queue) as server:
        make_ready = await way(server.api)
        poll = asyncio.create_task(server.api.claim(wait=LONG))
        await server.until_waiting()

        await make_ready()

        [task] = await asyncio.wait_for(poll, LONG / 2)
        assert (task["phase"], task["home_state"]) == ("held", "submitted")


@WITH_REDIS
@pytest.mark.parametrize("way", WAYS)
async def test_it_is_told_by_other_servers(
    inner_settings: Settings, queue: str, no_looks: None, way: Callable[[Api], Awaitable[Trigger]]
) -> None:
    async with inside(replace(inner_settings, scheduler=False), queue) as near, inside(inner_settings, queue) as far:
        make_ready = await way(far.api)
        poll = asyncio.create_task(near.api.claim(wait=LONG))
        await near.until_listening(inner_settings.redis_url)
        await near.until_waiting()

        await make_ready()

        [task] = await asyncio.wait_for(poll, LONG / 2)
        assert (task["phase"], task["home_state"]) == ("held", "submitted")


@WITH_REDIS
async def test_it_is_told_of_a_changed_priority(inner_settings: Settings, queue: str, no_looks: None) -> None:
    async with inside(inner_settings, queue) as server:
        assert await server.api.claim() == []
        task = await server.api.submit()
        with redis.Redis.from_url(inner_settings.redis_url) as client:
            client.delete(f"{{{inner_settings.redis_prefix}}}:W:{server.api.queue}\0submitted")
        poll = asyncio.create_task(server.api.claim(wait=LONG))
        await server.until_waiting()

        await server.api.update(task["id"], current_state="submitted", priority=4)

        [claimed] = await asyncio.wait_for(poll, LONG / 2)
        assert (claimed["id"], claimed["priority"]) == (task["id"], 4)


def woken_so_far() -> float:
    [metric] = metrics.WAKE_UPS.collect()
    return sum(sample.value for sample in metric.samples if sample.name.endswith("_total"))


async def test_as_many_polls_wake_as_there_are_tasks(inner_settings: Settings, queue: str, no_looks: None) -> None:
    store = CountingDatabase(inner_settings.database_url)
    claims = {load("claim_by_key"), load("claim_scan")}
    settings = replace(inner_settings, scheduler=False)
    async with inside(settings, queue, store) as server:
        held = await server.api.submit_held(current_state="before")
        polls = [asyncio.create_task(server.api.claim(wait=LONG)) for _ in range(100)]
        await server.until_waiting(100)
        store.log.clear()
        woken_before = woken_so_far()

        wanted = [{"queue": queue, "kind": str(number)} for number in range(10)]
        await server.api.complete(held["id"], delivery=1, next_tasks=wanted)
        await server.until_waiting(90)

        claimed = [await poll for poll in polls if poll.done()]
        assert sorted(int(task["kind"]) for [task] in claimed) == list(range(10))
        assert {task["delivery"] for [task] in claimed} == {1}
        assert 10 <= woken_so_far() - woken_before <= 20
        # What they claim, they claim together.
        assert 1 <= sum(query in claims for query in store.log) <= 4
        server.polls.close()
        assert [await poll for poll in polls].count([]) == 90


@WITH_REDIS
async def test_idle_polls_cost_no_statements(
    inner_settings: Settings, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "_INTERVAL", (0.01, 0.05))
    store = CountingDatabase(inner_settings.database_url)
    settings = replace(inner_settings, scheduler=False)
    async with inside(settings, queue, store) as server:
        polls = [asyncio.create_task(server.api.claim(wait=LONG)) for _ in range(100)]
        await server.until_waiting(100)
        store.log.clear()

        await asyncio.sleep(1)

        assert store.log == []
        server.polls.close()
        assert [await poll for poll in polls] == [[]] * 100


async def test_a_poll_finds_by_a_look_what_nobody_has_told(inner_settings: Settings, queue: str) -> None:
    settings = replace(inner_settings, scheduler=False)
    async with inside(settings, queue) as server, inside(replace(settings, redis_url=""), queue) as apart:
        poll = asyncio.create_task(server.api.claim(wait=LONG))
        await server.until_waiting()

        task = await apart.api.submit()

        house = House(settings)
        if house.refills:
            # Whoever submits without Redis offers nothing: reconciling finds it.
            await house.refills.reconcile(LONG)
        await house.close()
        [claimed] = await asyncio.wait_for(poll, LONG / 2)
        assert claimed["id"] == task["id"]


async def test_polls_that_come_and_go_keep_nobody_from_looking(inner_settings: Settings, queue: str) -> None:
    """A poll on a queue where nobody waited has the lookout act at once; the others' turn comes all the same."""
    settings = replace(inner_settings, redis_url="")
    async with inside(settings, queue) as server, inside(settings, queue) as apart:
        poll = asyncio.create_task(server.api.claim(wait=LONG))
        await server.until_waiting()

        is_over = False

        async def come_and_go() -> None:
            while not is_over:
                await server.api.claim(queues=[f"{queue}-busy"], wait=0.1)

        crowd = asyncio.create_task(come_and_go())
        task = await apart.api.submit()
        [claimed] = await asyncio.wait_for(poll, LONG / 2)
        is_over = True
        await crowd
        assert claimed["id"] == task["id"]


@WITH_REDIS
async def test_nonsense_on_a_channel_ends_nothing(inner_settings: Settings, queue: str, no_looks: None) -> None:
    async with inside(inner_settings, queue) as near, inside(inner_settings, queue) as far:
        poll = asyncio.create_task(near.api.claim(wait=LONG))
        await near.until_waiting()
        await near.until_listening(inner_settings.redis_url)
        with redis.Redis.from_url(inner_settings.redis_url) as client:
            for channel in client.pubsub_channels(f"*{queue}*"):
                client.publish(channel, b"\xc1nonsense")
        task = await far.api.submit()
        [claimed] = await asyncio.wait_for(poll, LONG / 2)
        assert claimed["id"] == task["id"]


async def test_a_poll_that_was_woken_in_vain_keeps_its_place() -> None:
    polls, window = Polls(), Window("q", "a")
    with polls.joined([window]) as first, polls.joined([window]) as second:
        polls.wake(window, 1, "test")
        await first.nudged(LONG)
        first.rearm()
        polls.wake(window, 1, "test")

        assert [poll.woken is not None for poll in (first, second)] == [True, False]


async def test_a_poll_that_was_woken_for_nobody_wakes_the_next(
    inner_settings: Settings, queue: str, no_looks: None
) -> None:
    settings = replace(inner_settings, redis_url="")
    async with inside(settings, queue) as server, inside(settings, queue) as apart:
        first, claim = Caller(), Claim(queues=(queue,))
        gone = asyncio.create_task(server.services.claims.claim(claim, LONG, first))
        await server.until_waiting(1)
        poll = asyncio.create_task(server.api.claim(wait=LONG))
        await server.until_waiting(2)
        task = await apart.api.submit()

        server.polls.wake(server.window, 1, "test")
        first.hang_up()

        assert await gone == []
        [claimed] = await asyncio.wait_for(poll, LONG / 2)
        assert (claimed["id"], claimed["delivery"]) == (task["id"], 1)


async def test_the_next_poll_is_told_of_what_one_hung_up_on(
    inner_settings: Settings, queue: str, no_looks: None
) -> None:
    url = inner_settings.database_url
    async with inside(inner_settings, queue) as server:
        submitted = await server.api.submit()
        caller = Caller()
        async with HoldUp(url, "task_runs") as releases:
            async with HoldUp(url, "tasks") as claims:
                gone = asyncio.create_task(server.services.claims.claim(Claim(queues=(queue,)), LONG, caller))
                await claims.until_one_waits()
                caller.hang_up()
            await releases.until_one_waits()
            poll = asyncio.create_task(server.api.claim(wait=LONG))
            await server.until_waiting()

        [task] = await asyncio.wait_for(poll, LONG / 2)

        assert await gone == []
        assert (task["id"], task["delivery"], task["attempt"]) == (submitted["id"], 2, 0)
        assert await runs_of(url, submitted) == [(1, "released")]


async def test_a_poll_that_ends_takes_no_wake_up_with_it(inner_settings: Settings, queue: str, no_looks: None) -> None:
    """Polls that end, or are answered, just as tasks come leave none of them lying."""
    async with inside(inner_settings, queue) as server:
        async with asyncio.timeout(60):
            for number in range(30):
                ending = [asyncio.create_task(server.api.claim(wait=0.02)) for _ in range(5)]
                lasting = [asyncio.create_task(server.api.claim(wait=LONG)) for _ in range(2)]
                await asyncio.sleep(0.001 * (number % 25))
                submitted = [(await server.api.submit())["id"] for _ in range(2)]
                ended = [task["id"] for poll in ending for task in await poll]
                # What went to those that ended is not there for those that last.
                submitted += [(await server.api.submit())["id"] for _ in ended]
                claimed = ended + [task["id"] for poll in lasting for task in await poll]
                assert Counter(claimed) == Counter(submitted)
