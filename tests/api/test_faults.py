"""A fifth of all statements answer 40001, really: no 5xx, nothing lost, nothing doubled (S33, its second half)."""

import asyncio
import logging
import os
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from random import Random
from time import monotonic

import httpx
import pytest

from corndog.settings import Settings
from tests.api.calls import Api, Fields, done, refused
from tests.servers import running_server

logger = logging.getLogger(__name__)

CLIENTS = 16
LIVES = 300
CROWD = 64
SECONDS = float(os.environ.get("CORNDOG_TEST_CROWD_SECONDS", "3"))
"""How long the crowd works; the trial itself wants a minute."""


@pytest.fixture(scope="module", params=["read committed", "serializable"], ids=["rc", "ssi"])
def server_url(request: pytest.FixtureRequest, database_url: str) -> Iterator[str]:
    settings = Settings(database_url=database_url, isolation=request.param, retry_deadline=60)
    with running_server(settings, target="tests.faulty_app:from_environment") as url:
        yield url


@pytest.fixture
def faulty(client: httpx.AsyncClient, queue: str) -> Api:
    """Talk to a server whose database conflicts all the time."""
    return Api(client, queue)


class Load:
    """A mixed load: tasks are submitted, claimed from several queues, and led to all kinds of ends."""

    def __init__(self, api: Api, seed: int) -> None:
        self.api = api
        self.random = Random(seed)
        self.queues = [f"{api.queue}-{letter}" for letter in "ab"]
        self.submitted: list[str] = []
        self.ended: Counter[str] = Counter()
        self.deliveries: Counter[tuple[str, int]] = Counter()

    async def submit(self) -> None:
        while len(self.submitted) < LIVES:
            fields: Fields = {"queue": self.random.choice(self.queues), "priority": self.random.randrange(3)}
            if self.random.random() < 0.2:
                fields["delay"] = 0.01
            self.submitted.append("")
            place = len(self.submitted) - 1
            self.submitted[place] = (await self.api.submit(**fields, payload=place))["id"]

    async def work(self) -> None:
        while sum(self.ended.values()) < LIVES:
            for held in await self.api.claim(queues=self.queues, count=self.random.randrange(1, 4), worker_id="w"):
                self.deliveries[held["id"], held["delivery"]] += 1
                await self.finish(held)

    async def finish(self, held: Fields) -> None:
        task_id, delivery = held["id"], held["delivery"]
        choice = self.random.random()
        if choice < 0.1:
            await self.api.release(task_id, delivery=delivery)
        elif choice < 0.2:
            await self.api.release(task_id, delivery=delivery, delay=0.01)
        elif choice < 0.3:
            await self.api.update(task_id, delivery=delivery, new_state="submitted")
        elif choice < 0.4:
            await self.api.cancel(task_id)
            self.ended["canceled"] += 1
        else:
            await self.api.update(task_id, delivery=delivery, payload={"progress": True})
            completed = await self.api.complete(
                task_id,
                delivery=delivery,
                result=delivery,
                next_task={"queue": f"{self.api.queue}-next", "payload": task_id},
            )
            assert len(completed["next_tasks"]) == 1
            self.ended["completed"] += 1


@pytest.mark.timeout(300)
async def test_a_mixed_load_adds_up(faulty: Api) -> None:
    load = Load(faulty, seed=1)
    async with asyncio.TaskGroup() as clients:
        for number in range(CLIENTS):
            clients.create_task(load.submit() if number % 4 == 0 else load.work())

    assert load.ended.total() == len(set(load.submitted)) == LIVES
    assert set(load.deliveries.values()) == {1}
    archived: list[Fields] = []
    for queue in load.queues:
        archived += await faulty.list(queue=queue, archived=True, limit=1000)
        assert await faulty.list(queue=queue) == []
    assert Counter(task["phase"] for task in archived) == load.ended
    assert {task["id"] for task in archived} == set(load.submitted)
    next_tasks = await faulty.list(queue=f"{faulty.queue}-next", limit=1000, include="payload")
    completed = {task["id"] for task in archived if task["phase"] == "completed"}
    assert Counter(task["payload"] for task in next_tasks) == Counter(completed)
    results = [await faulty.get(task["id"], include="result") for task in archived[:50]]
    assert all(("result" in task) == (task["phase"] == "completed") for task in results)


async def test_the_swept_come_back_once(faulty: Api) -> None:
    starter = await faulty.submit_held(current_state="start")
    wanted = [{"queue": faulty.queue, "work_timeout": 0.001}] * 100
    ids = (await faulty.complete(starter["id"], delivery=1, next_tasks=wanted))["next_tasks"]
    handed_out = [task["id"] for _ in range(10) for task in await faulty.claim(count=10)]
    assert Counter(handed_out) == Counter(ids)

    async with asyncio.timeout(60):
        while (await faulty.counts()).get("submitted") != 100:
            await faulty.clean_up()

    again = [task for _ in range(10) for task in await faulty.claim(count=10)]
    assert Counter(task["id"] for task in again) == Counter(ids)
    assert {(task["delivery"], task["lost"]) for task in again} == {(2, 1)}


async def test_refusals_are_still_the_right_ones(faulty: Api) -> None:
    for _ in range(20):
        held = await faulty.submit_held()
        refused(await faulty.try_complete(held["id"], delivery=7), 409, "stale_delivery")
        refused(await faulty.try_update(held["id"], current_state="submitted-working"), 409, "held")
        await faulty.complete(held["id"], delivery=1)
        refused(await faulty.try_cancel(held["id"]), 409, "ended")


async def test_parallel_completes_make_one_next_task(faulty: Api) -> None:
    held = await faulty.submit_held()
    request: Fields = {"delivery": 1, "next_task": {"queue": faulty.queue}}

    answers = await asyncio.gather(*(faulty.complete(held["id"], **request) for _ in range(20)))

    assert len({answer["next_tasks"][0] for answer in answers}) == 1
    assert await faulty.counts() == {"submitted": 1}


@pytest.mark.timeout(60 + 3 * SECONDS)
async def test_a_crowd_on_one_queue(server_url: str, queue: str) -> None:
    """S33, its second half: no 5xx, no double claim, nothing lost."""
    until = monotonic() + SECONDS
    answers: Counter[int] = Counter()
    deliveries: Counter[tuple[str, int]] = Counter()
    submitted: set[str] = set()
    completed: Counter[str] = Counter()

    async def work(client: httpx.AsyncClient, number: int) -> None:
        async def post(path: str, **body: object) -> Fields:
            response = await client.post(path, json=body)
            answers[response.status_code] += 1
            return done(response, 201 if path == "/v1/tasks" else 200)

        claim: Fields = {"queue": queue, "count": 2, "worker_id": f"w{number}"}
        held: list[Fields] = []
        while held or monotonic() < until:
            if not held:
                submitted.add((await post("/v1/tasks", queue=queue, payload=number))["id"])
                held = (await post("/v1/tasks/next", **claim))["tasks"]
                deliveries.update((task["id"], task["delivery"]) for task in held)
                continue
            items = [{"id": task["id"], "delivery": task["delivery"], "result": number} for task in held]
            follows = {"claim": claim} if monotonic() < until else {}
            if len(items) == 1:
                task_id = items[0].pop("id")
                answer = await post(f"/v1/tasks/{task_id}/complete", **items[0], **follows)
                completed[answer["task"]["id"]] += 1
            else:
                answer = await post("/v1/tasks/complete", tasks=items, **follows)
                assert answer["failed"] == 0
                completed.update(result["id"] for result in answer["results"])
            held = answer["claimed"]["tasks"] if follows else []
            deliveries.update((task["id"], task["delivery"]) for task in held)

    context = ssl.create_default_context()
    async with AsyncExitStack() as stack:
        # A client of its own for each: one for all would be what they wait for.
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=server_url, timeout=60, verify=context))
            for _ in range(CROWD)
        ]
        async with asyncio.TaskGroup() as crowd:
            for number, client in enumerate(clients):
                crowd.create_task(work(client, number))
        left = await Api(clients[0], queue).claim(count=1000)

    assert answers.keys() == {200, 201}
    assert set(deliveries.values()) == set(completed.values()) == {1}
    assert {task["delivery"] for task in left} <= {1}
    assert {task["id"] for task in left}.isdisjoint(completed)
    assert submitted == {task["id"] for task in left} | completed.keys()
    logger.info("%d submitted, %d completed, %d answers", len(submitted), completed.total(), answers.total())
