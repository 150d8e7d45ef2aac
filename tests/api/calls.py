"""The calls of the API as tests make them, and what refusals must look like."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

JSON = "application/json"
MSGPACK = "application/msgpack"
PROBLEM = "application/problem+json"
FUTURE = "2100-01-01T00:00:00Z"
"""A time by which every clock has run out."""

WRITES = ["update", "complete", "release", "cancel"]

Fields = dict[str, Any]


class Api:
    """A client of one queue: it fills in the queue where a call takes one, and demands success where it gives tasks."""

    def __init__(self, client: httpx.AsyncClient, queue: str) -> None:
        self.client = client
        self.queue = queue

    async def post(self, path: str, **body: Any) -> httpx.Response:  # noqa: ANN401
        return await self.client.post(path, json=body)

    async def send(self, method: str, path: str, body: bytes | str, content_type: str = JSON) -> httpx.Response:
        """Send a body as it is."""
        return await self.client.request(method, path, content=body, headers={"Content-Type": content_type})

    async def try_submit(self, **fields: Any) -> httpx.Response:  # noqa: ANN401
        return await self.post("/v1/tasks", **{"queue": self.queue} | fields)

    async def try_claim(self, **fields: Any) -> httpx.Response:  # noqa: ANN401
        return await self.post("/v1/tasks/next", **(fields if "queues" in fields else {"queue": self.queue} | fields))

    async def try_get(self, task_id: str, **query: str) -> httpx.Response:
        return await self.client.get(f"/v1/tasks/{task_id}", params=query)

    async def try_update(self, task_id: str, **fields: Any) -> httpx.Response:  # noqa: ANN401
        return await self.client.patch(f"/v1/tasks/{task_id}", json=fields)

    async def try_complete(self, task_id: str, **fields: Any) -> httpx.Response:  # noqa: ANN401
        return await self.post(f"/v1/tasks/{task_id}/complete", **fields)

    async def try_release(self, task_id: str, **fields: Any) -> httpx.Response:  # noqa: ANN401
        return await self.post(f"/v1/tasks/{task_id}/release", **fields)

    async def try_cancel(self, task_id: str, **fields: Any) -> httpx.Response:  # noqa: ANN401
        return await self.post(f"/v1/tasks/{task_id}/cancel", **fields)

    async def try_fail(self, task_id: str, **fields: Any) -> httpx.Response:  # noqa: ANN401
        return await self.post(f"/v1/tasks/{task_id}/fail", **fields)

    async def try_revive(self, task_id: str) -> httpx.Response:
        return await self.post(f"/v1/tasks/{task_id}/revive")

    async def try_submit_job(self, tasks: Sequence[Fields], **fields: Any) -> httpx.Response:  # noqa: ANN401
        """Submit a job whose tasks are in the queue unless they say otherwise."""
        defaults = {"queue": self.queue} | fields.pop("defaults", {})
        return await self.post("/v1/jobs", tasks=tasks, defaults=defaults, **fields)

    async def try_cancel_job(self, job_id: str) -> httpx.Response:
        return await self.post(f"/v1/jobs/{job_id}/cancel")

    async def try_revive_job(self, job_id: str) -> httpx.Response:
        return await self.post(f"/v1/jobs/{job_id}/revive")

    async def submit(self, **fields: Any) -> Fields:  # noqa: ANN401
        return task_of(await self.try_submit(**fields), 201)

    async def claim(self, **fields: Any) -> list[Fields]:  # noqa: ANN401
        return tasks_of(await self.try_claim(**fields))

    async def submit_held(self, **fields: Any) -> Fields:  # noqa: ANN401
        """Submit a task and claim it."""
        submitted = await self.submit(**fields)
        [held] = await self.claim(current_state=submitted["current_state"])
        assert held["id"] == submitted["id"]
        return held

    async def get(self, task_id: str, **query: str) -> Fields:
        return task_of(await self.try_get(task_id, **query))

    async def update(self, task_id: str, **fields: Any) -> Fields:  # noqa: ANN401
        return done(await self.try_update(task_id, **fields))

    async def complete(self, task_id: str, **fields: Any) -> Fields:  # noqa: ANN401
        return done(await self.try_complete(task_id, **fields))

    async def release(self, task_id: str, **fields: Any) -> Fields:  # noqa: ANN401
        return done(await self.try_release(task_id, **fields))

    async def cancel(self, task_id: str, **fields: Any) -> Fields:  # noqa: ANN401
        return done(await self.try_cancel(task_id, **fields))

    async def fail(self, task_id: str, **fields: Any) -> Fields:  # noqa: ANN401
        return done(await self.try_fail(task_id, **fields))

    async def revive(self, task_id: str) -> Fields:
        return done(await self.try_revive(task_id))

    async def submit_job(self, *tasks: Fields, **fields: Any) -> tuple[str, dict[str, str]]:  # noqa: ANN401
        """Submit a job; give its id, and those of its tasks by name."""
        answer = done(await self.try_submit_job(tasks, **fields), 201)
        return answer["job"]["id"], answer["tasks"]

    async def get_job(self, job_id: str) -> Fields:
        return done(await self.client.get(f"/v1/jobs/{job_id}"))

    async def job_status(self, job_id: str) -> str:
        status: str = done(await self.client.get(f"/v1/jobs/{job_id}", params={"tasks": "false"}))["job"]["status"]
        return status

    async def job_tasks(self, job_id: str) -> dict[str, Fields]:
        """Read the tasks of a job by their names."""
        return {task["name"]: task for task in (await self.get_job(job_id))["tasks"]}

    async def cancel_job(self, job_id: str) -> Fields:
        return done(await self.try_cancel_job(job_id))

    async def revive_job(self, job_id: str) -> Fields:
        return done(await self.try_revive_job(job_id))

    async def claim_names(self, **fields: Any) -> dict[str, Fields]:  # noqa: ANN401
        """Claim up to 1,000 tasks of jobs, by their names."""
        return {task["name"]: task for task in await self.claim(**{"count": 1000} | fields)}

    async def runs(self, task_id: str) -> list[Fields]:
        runs: list[Fields] = done(await self.client.get(f"/v1/tasks/{task_id}/runs"))["runs"]
        return runs

    async def clean_up(self, at_time: str | None = FUTURE) -> int:
        """Time out what is due in the queue by then; for None, by now."""
        timed_out: int = done(await self.post("/v1/cleanup-timed-out", queue=self.queue, at_time=at_time))["timed_out"]
        return timed_out

    async def list(self, **query: Any) -> list[Fields]:  # noqa: ANN401
        return tasks_of(await self.client.get("/v1/tasks", params={"queue": self.queue} | query))

    async def counts(self) -> dict[str, int]:
        counts: dict[str, int] = done(await self.client.get("/v1/state-counts", params={"queue": self.queue}))[
            "state_counts"
        ]
        return counts

    async def until_ready(self, task_id: str) -> Fields:
        """Wait until a parked task is ready."""
        poll = AsyncRetrying(
            retry=retry_if_result(lambda task: task["phase"] == "parked"),
            wait=wait_fixed(0.02),
            stop=stop_after_delay(30),
        )
        task: Fields = await poll(self.get, task_id)
        return task

    async def refuses(self, response: httpx.Response, status: int, code: str, field: str | None = None) -> Fields:
        """See that a write was refused in proper form, and that it has left the queue empty."""
        problem = refused(response, status, code, field)
        assert await self.list() == []
        assert await self.list(archived=True) == []
        return problem

    async def refuses_to_change(
        self, before: Mapping[str, Any], response: httpx.Response, status: int, code: str, field: str | None = None
    ) -> Fields:
        """See that a write was refused in proper form, and that it has left the task, and the queue, as they were."""
        problem = refused(response, status, code, field)
        task = await self.get(before["id"], include="payload,result")
        assert {name: value for name, value in task.items() if name in before} == before
        assert {task["id"] for task in await self.list() + await self.list(archived=True)} == {before["id"]}
        if status == 409:
            assert problem["task"] == {
                name: task[name] for name in ("id", "queue", "current_state", "phase", "delivery")
            }
        return problem


def done(response: httpx.Response, status: int = 200) -> Fields:
    """Give the answer of a call that must succeed."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == JSON
    answer: Fields = response.json()
    return answer


def task_of(response: httpx.Response, status: int = 200) -> Fields:
    """Give the task that a call answers with."""
    task: Fields = done(response, status)["task"]
    return task


def tasks_of(response: httpx.Response) -> list[Fields]:
    """Give the tasks that a call answers with."""
    tasks: list[Fields] = done(response)["tasks"]
    return tasks


def refused(response: httpx.Response, status: int, code: str, field: str | None = None) -> Fields:
    """See that an answer is a problem as it should be, and give it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    problem: Fields = json.loads(response.content)
    path = response.request.url.path
    assert problem["status"] == status
    assert problem["type"] == f"urn:corndog:problem:{code}"
    assert problem["code"] == code
    assert problem["title"]
    assert problem["detail"]
    assert problem.get("field") == field, problem
    assert problem.keys() <= {"type", "title", "status", "code", "detail", "field", "task", "errors"}
    is_of_a_task = status == 409 and code != "key_in_use" and not path.startswith("/v1/jobs")
    assert ("task" in problem) == is_of_a_task
    return problem


def unknown_id() -> str:
    """Name a task that nobody has submitted."""
    return str(uuid4())


def after(*parents: str, **fields: Any) -> Fields:  # noqa: ANN401
    """Describe a task of a job that depends on others; `name` is among the fields."""
    return {"depends_on": list(parents)} | fields


def seconds_between(earlier: str, later: str) -> float:
    """Measure the time between two times of answers."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def is_uuid(text: str) -> bool:
    return str(UUID(text)) == text


def call_of(write: str, task_id: str) -> tuple[str, str]:
    """Give the method and the path of a call that writes a task."""
    return ("PATCH", f"/v1/tasks/{task_id}") if write == "update" else ("POST", f"/v1/tasks/{task_id}/{write}")
