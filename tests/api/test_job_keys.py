"""Idempotency keys of jobs: one job for one key, whatever is repeated."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest

from tests.api.calls import MSGPACK, Api, Fields, refused


@pytest.fixture
def job(api: Api) -> Fields:
    """Give a job of two tasks."""
    tasks = [{"name": "a", "payload": {"n": 1}, "metadata": {"x": 1, "y": 2}}, {"name": "b", "depends_on": ["a"]}]
    return {"name": "j", "defaults": {"queue": api.queue}, "tasks": tasks}


async def submit(api: Api, key: str, body: Fields) -> httpx.Response:
    return await api.client.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})


async def test_a_repeat_makes_nothing_and_is_answered_with_the_job_as_it_is(api: Api, job: Fields) -> None:
    key = uuid4().hex
    first = await submit(api, key, job)
    [root] = await api.claim()
    await api.complete(root["id"], delivery=1)

    again = await submit(api, key, job)

    assert (first.status_code, again.status_code) == (201, 201)
    one, other = first.json(), again.json()
    assert (one["replayed"], other["replayed"]) == (False, True)
    assert (one["id"], one["tasks"]) == (other["id"], other["tasks"])
    assert one["id"] == one["job"]["id"]
    assert (one["job"]["status"], other["job"]["status"]) == ("pending", "running")
    assert len(await api.list(job_id=one["id"])) == 1


async def test_the_key_may_stand_in_the_body_but_not_in_both(api: Api, job: Fields) -> None:
    key = uuid4().hex
    first = await api.post("/v1/jobs", **job, idempotency_key=key)

    again = await submit(api, key, job)

    assert again.json()["id"] == first.json()["id"]
    refused(await submit(api, key, job | {"idempotency_key": key}), 400, "invalid", "idempotency_key")


async def test_the_encoding_and_the_order_of_fields_do_not_matter(api: Api, job: Fields) -> None:
    key = uuid4().hex
    first = await submit(api, key, job)
    root = dict(reversed(job["tasks"][0].items())) | {"payload": b'{"n":1}', "metadata": {"y": 2, "x": 1}}
    body = dict(reversed(job.items())) | {"tasks": [root, job["tasks"][1]]}

    again = await api.client.post(
        "/v1/jobs", content=msgspec.msgpack.encode(body), headers={"Idempotency-Key": key, "Content-Type": MSGPACK}
    )

    assert again.status_code == 201, again.text
    assert (again.json()["id"], again.json()["replayed"]) == (first.json()["id"], True)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"metadata": {}},
        {"tasks": [{"name": "a"}]},
        {"tasks": [{"name": "a", "payload": {"n": 2}}, {"name": "b", "depends_on": ["a"]}]},
        {"tasks": [{"name": "a", "payload": {"n": 1}}, {"name": "b", "depends_on": ["a"], "on_parent_failure": "run"}]},
    ],
)
async def test_another_request_under_the_key_is_refused(api: Api, job: Fields, change: dict[str, Any]) -> None:
    key = uuid4().hex
    first = await submit(api, key, job)

    refused(await submit(api, key, job | change), 409, "key_in_use")

    assert len(await api.list(job_id=first.json()["id"])) == 2


async def test_jobs_and_tasks_share_one_namespace(api: Api, job: Fields) -> None:
    key = uuid4().hex
    await submit(api, key, job)

    refused(await api.try_submit(idempotency_key=key), 409, "key_in_use")


async def test_a_refused_job_keeps_no_key(api: Api, job: Fields) -> None:
    key = uuid4().hex
    refused(
        await submit(api, key, job | {"tasks": [{"name": "a", "depends_on": ["a"]}]}),
        400,
        "invalid_job",
        "tasks[0].depends_on[0]",
    )

    assert (await submit(api, key, job)).status_code == 201


async def test_a_crowd_with_one_key_makes_one_job(api: Api, job: Fields) -> None:
    key = uuid4().hex

    answers = await asyncio.gather(*(submit(api, key, job) for _ in range(50)))

    assert {answer.status_code for answer in answers} == {201}
    [job_id] = {answer.json()["id"] for answer in answers}
    assert sum(not answer.json()["replayed"] for answer in answers) == 1
    assert [task["job_id"] for task in await api.list()] == [job_id, job_id]
