"""32 workers on random jobs with every outcome there is, over HTTP: what no interleaving may bring about.

Some seconds each; `CORNDOG_TEST_LONG=SECONDS` has it go on for longer.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import asyncpg
import httpx
import pytest
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.settings import Settings
from corndog.store.engine import Isolation
from tests.api.calls import FUTURE, Api, Fields, done, tasks_of
from tests.api.test_jobs import task
from tests.faults import plain_url
from tests.job_rules import STORED_STATUS, broken_rules
from tests.servers import NewDatabase, running_server

SECONDS = float(os.environ.get("CORNDOG_TEST_LONG") or 6)
WORKERS = 32
JOBS = 8
TASKS = 30


@pytest.fixture(scope="module", params=["read committed", "serializable"], ids=["rc", "ssi"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    level: Isolation = request.param
    return level


@pytest.fixture(scope="module")
async def storm_database_url(new_database: NewDatabase, isolation: Isolation) -> AsyncIterator[str]:
    async with new_database() as url:
        yield url


@pytest.fixture(scope="module")
def storm_url(storm_database_url: str, redis_url: str, isolation: Isolation) -> Iterator[str]:
    settings = Settings(
        database_url=storm_database_url, redis_url=redis_url, isolation=isolation, cleanup_interval=0, retry_deadline=60
    )
    with running_server(settings) as url:
        yield url


def random_tasks(chance: random.Random) -> list[Fields]:
    tasks = []
    for place in range(TASKS):
        before = range(max(0, place - 10), place)
        parents = chance.sample(before, min(len(before), chance.choice((0, 1, 1, 2, 2, 3, 6))))
        more: Fields = {"on_parent_failure": "run"} if chance.random() < 0.2 else {}
        if chance.random() < 0.1:
            more["delay"] = 0.3
        tasks.append(task(f"t{place}", *(f"t{parent}" for parent in parents), **more))
    return tasks


class Storm:
    """Jobs under fire, and what is seen of them."""

    def __init__(self, api: Api, seed: int) -> None:
        self.api = api
        self.chance = random.Random(seed)
        self.jobs: dict[str, list[str]] = {}
        self.running: set[str] = set()
        self.runs_anyway: set[str] = set()
        self.deliveries: Counter[tuple[str, int]] = Counter()
        self.completed: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.statuses: Counter[int] = Counter()

    async def submit(self) -> None:
        tasks = random_tasks(self.chance)
        defaults = {"max_attempts": 3, "backoff": 0.2, "max_lost": 2}
        job_id, ids = await self.api.submit_job(*tasks, defaults=defaults)
        self.jobs[job_id] = list(ids.values())
        self.runs_anyway |= {ids[each["name"]] for each in tasks if "on_parent_failure" in each}

    async def claim(self, count: int = 1) -> list[Fields]:
        response = await self.api.try_claim(count=count, include=["dependencies"], worker_id="w", wait=0.1)
        self.note(response)
        claimed = tasks_of(response)
        for each in claimed:
            self.deliveries[each["id"], each["delivery"]] += 1
            for name, parent in each["dependencies"].items():
                if parent["phase"] != "completed" and each["id"] not in self.runs_anyway:
                    self.wrong.append(f"{each['name']} runs although {name} is {parent['phase']}")
            if each["id"] in self.completed:
                self.wrong.append(f"{each['name']} runs again after its completion")
        return claimed

    def note(self, response: httpx.Response) -> None:
        self.statuses[response.status_code] += 1
        if response.status_code >= 500:
            self.wrong.append(response.text)

    async def complete(self, each: Fields) -> None:
        response = await self.api.try_complete(each["id"], delivery=each["delivery"], result=each["name"])
        self.note(response)
        if response.status_code == 200:
            self.completed[each["id"]] += 1

    async def end(self, each: Fields) -> None:
        task_id, delivery = each["id"], each["delivery"]
        match self.chance.choices(("complete", "retry", "fail", "release", "leave"), (60, 12, 8, 8, 12)):
            case ["complete"]:
                await self.complete(each)
            case ["retry"]:
                self.note(await self.api.try_fail(task_id, delivery=delivery, error="retried"))
            case ["fail"]:
                self.note(await self.api.try_fail(task_id, delivery=delivery, error="failed", retryable=False))
            case ["release"]:
                self.note(await self.api.try_release(task_id, delivery=delivery))

    async def work(self, until: float) -> None:
        while time.monotonic() < until:
            for each in await self.claim(self.chance.choice((1, 1, 3))):
                await self.end(each)

    async def disturb(self, until: float) -> None:
        while time.monotonic() < until:
            job_id = self.chance.choice(list(self.jobs))
            task_id = self.chance.choice(self.jobs[job_id])
            match self.chance.choices(("cancel", "revive", "cancel job", "revive job", "sweep"), (3, 8, 1, 6, 6)):
                case ["cancel"]:
                    self.note(await self.api.try_cancel(task_id))
                case ["revive"]:
                    self.note(await self.api.try_revive(task_id))
                case ["cancel job"]:
                    self.note(await self.api.try_cancel_job(job_id))
                case ["revive job"]:
                    self.note(await self.api.try_revive_job(job_id))
                case ["sweep"]:
                    self.note(await self.api.post("/v1/cleanup-timed-out", queue=self.api.queue, at_time=FUTURE))
            await asyncio.sleep(0.01)

    async def finish(self) -> None:
        """Revive all that has ended otherwise, and complete everything."""
        async with asyncio.timeout(300):
            await self.api.clean_up()
            unfinished = dict(self.jobs)
            while unfinished:
                for job_id in list(unfinished):
                    if await self.api.job_status(job_id) == "completed":
                        del unfinished[job_id]
                        continue
                    with suppress(AssertionError):
                        await self.api.revive_job(job_id)
                    ended = [
                        task["id"]
                        for task in (await self.api.get_job(job_id))["tasks"]
                        if task["phase"] in {"failed", "canceled"}
                    ]
                    if ended:
                        self.note(await self.api.post("/v1/tasks/revive", ids=ended))
                while claimed := await self.claim(50):
                    await asyncio.gather(*map(self.complete, claimed))


async def test_no_interleaving_breaks_a_rule(storm_url: str, storm_database_url: str, queue: str) -> None:
    connection = await asyncpg.connect(plain_url(storm_database_url))
    async with httpx.AsyncClient(base_url=storm_url, timeout=90) as client:
        storm = Storm(Api(client, queue), seed=7)
        await asyncio.gather(*(storm.submit() for _ in range(JOBS)))
        until = time.monotonic() + SECONDS

        await asyncio.gather(*(storm.work(until) for _ in range(WORKERS)), *(storm.disturb(until) for _ in range(6)))

        assert storm.wrong == []
        assert await broken_rules(connection) == {}
        for job_id in storm.jobs:
            whole = done(await client.get(f"/v1/jobs/{job_id}"))
            is_final = whole["job"]["status"] in {"completed", "failed", "canceled"}
            ended = {"completed", "failed", "canceled"}
            assert is_final == (whole["phase_counts"].keys() <= ended) == (whole["job"]["end_time"] is not None)
        follow = AsyncRetrying(retry=retry_if_result(bool), wait=wait_fixed(0.1), stop=stop_after_delay(25))
        assert await follow(connection.fetch, STORED_STATUS) == []

        await storm.finish()

        assert storm.wrong == []
        assert storm.completed == {task_id: 1 for ids in storm.jobs.values() for task_id in ids}
        assert set(storm.deliveries.values()) == {1}
        assert await broken_rules(connection) == {}
        for job_id in storm.jobs:
            for each in (await storm.api.get_job(job_id))["tasks"]:
                seen = {delivery for task_id, delivery in storm.deliveries if task_id == each["id"]}
                assert seen == set(range(1, each["delivery"] + 1))
        assert await follow(connection.fetch, STORED_STATUS) == []
        listed = done(await client.get("/v1/jobs", params={"status": "completed"}))["jobs"]
        assert {job["id"] for job in listed} == storm.jobs.keys()
    await connection.close()
    assert storm.statuses.keys() <= {200, 409}
