"""Ended tasks go when they were kept long enough, by their outcome: design section 4."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.settings import Settings
from tests.api.calls import Api, refused
from tests.servers import running_server


@pytest.fixture(scope="module")
def purging_url(database_url: str, redis_url: str) -> Iterator[str]:
    """Run a server that soon forgets completed and canceled tasks, and never failed ones."""
    settings = Settings(
        database_url=database_url,
        redis_url=redis_url,
        retention_completed=0.3,
        retention_canceled=0.3,
        retention_failed=0,
        retention_interval=0.05,
    )
    with running_server(settings) as url:
        yield url


@pytest.fixture
async def brief(purging_url: str, queue: str) -> AsyncIterator[Api]:
    async with httpx.AsyncClient(base_url=purging_url, timeout=30) as client:
        yield Api(client, queue)


async def until_gone(api: Api, task_id: str) -> httpx.Response:
    poll = AsyncRetrying(
        retry=retry_if_result(lambda response: response.status_code == 200),
        wait=wait_fixed(0.02),
        stop=stop_after_delay(30),
    )
    response: httpx.Response = await poll(api.try_get, task_id)
    return response


async def test_completed_and_canceled_tasks_go_and_others_stay(brief: Api) -> None:
    live = await brief.submit(current_state="later", payload="kept")
    dead = await brief.submit_held(current_state="bad", max_lost=1, payload="kept")
    assert await brief.clean_up() == 1
    done = await brief.submit_held(payload="gone")
    await brief.complete(done["id"], delivery=1, result="gone")
    canceled = await brief.submit(current_state="unwanted")
    await brief.cancel(canceled["id"])

    for task in (done, canceled):
        refused(await until_gone(brief, task["id"]), 404, "task_not_found")

    for part in ("payload", "result", "runs"):
        refused(await brief.client.get(f"/v1/tasks/{done['id']}/{part}"), 404, "task_not_found")
    # A worker that repeats itself takes this as final.
    refused(await brief.try_complete(done["id"], delivery=1, result="gone"), 404, "task_not_found")
    assert [task["id"] for task in await brief.list(archived=True)] == [dead["id"]]
    assert (await brief.get(dead["id"], include="payload"))["payload"] == "kept"
    assert (await brief.get(live["id"], include="payload"))["payload"] == "kept"


async def test_what_a_task_led_to_outlives_it(brief: Api) -> None:
    first = await brief.submit_held()
    [following] = (await brief.complete(first["id"], delivery=1, next_task={"queue": brief.queue}))["next_tasks"]

    await until_gone(brief, first["id"])

    assert [task["id"] for task in await brief.claim()] == [following]
