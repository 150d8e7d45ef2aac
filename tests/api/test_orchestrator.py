"""The requests of a DAG orchestrator's clients, as APIDOCS.md has them: taken as they are, answered under our names."""

from typing import Any

import pytest

from tests.api.calls import FUTURE, Api, done, refused, task_of, tasks_of, unknown_id

GRAPH: list[dict[str, Any]] = [
    {"name": "extract", "kind": "fetch", "payload": {"url": "a"}, "depends_on": []},
    {"name": "left", "kind": "transform", "payload": {"half": 1}, "depends_on": ["extract"]},
    {"name": "right", "kind": "transform", "payload": {"half": 2}, "depends_on": ["extract"]},
    {"name": "load", "kind": "store", "payload": None, "depends_on": ["left", "right"]},
]


@pytest.fixture
async def orchestrator(api: Api) -> Api:
    """Talk about the queue that requests mean which name none, emptied of what other tests have left there."""
    plain = Api(api.client, "default")
    for task in await plain.list():
        await plain.cancel(task["id"])
    return plain


async def make(orchestrator: Api) -> tuple[str, dict[str, str]]:
    made = done(await orchestrator.post("/v1/jobs", tasks=GRAPH), 201)
    return made["job"]["id"], made["tasks"]


async def job_of(orchestrator: Api, job_id: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Read a job's status and its tasks by name."""
    whole = done(await orchestrator.client.get(f"/v1/jobs/{job_id}"))
    return whole["job"]["status"], {task["name"]: task for task in whole["tasks"]}


async def take(orchestrator: Api) -> dict[str, Any]:
    [task] = tasks_of(await orchestrator.post("/v1/tasks/next", worker_id="worker-1"))
    return task


async def runs_of(orchestrator: Api, task_id: str) -> list[str | None]:
    return [run["outcome"] for run in done(await orchestrator.client.get(f"/v1/tasks/{task_id}/runs"))["runs"]]


async def test_a_task_is_submitted_and_read(orchestrator: Api) -> None:
    submitted = task_of(await orchestrator.post("/v1/tasks", kind="email", payload={"to": "ada"}), 201)

    read = task_of(await orchestrator.client.get(f"/v1/tasks/{submitted['id']}"))

    assert (read["kind"], read["phase"], read["attempt"], read["max_attempts"]) == ("email", "ready", 0, 3)
    refused(await orchestrator.client.get(f"/v1/tasks/{unknown_id()}"), 404, "task_not_found")
    refused(await orchestrator.client.get("/v1/tasks/17"), 400, "invalid", "id")


async def test_a_job_is_submitted_and_read(orchestrator: Api) -> None:
    job_id, ids = await make(orchestrator)

    status, tasks = await job_of(orchestrator, job_id)

    assert status == "pending"
    assert {name: task["id"] for name, task in tasks.items()} == ids
    assert {name: task["kind"] for name, task in tasks.items()} == {task["name"]: task["kind"] for task in GRAPH}
    assert {name: [each["name"] for each in task["depends_on"]] for name, task in tasks.items()} == {
        "extract": [],
        "left": ["extract"],
        "right": ["extract"],
        "load": ["left", "right"],
    }
    assert (tasks["extract"]["phase"], tasks["load"]["phase"]) == ("ready", "parked")


@pytest.mark.parametrize(
    "tasks",
    [
        [{"name": "a", "kind": "k", "payload": {}, "depends_on": ["b"]}],
        [
            {"name": "a", "kind": "k", "payload": {}, "depends_on": ["b"]},
            {"name": "b", "kind": "k", "payload": {}, "depends_on": ["a"]},
        ],
    ],
    ids=["unknown", "cycle"],
)
async def test_a_graph_that_is_none_is_refused(orchestrator: Api, tasks: list[dict[str, Any]]) -> None:
    response = await orchestrator.post("/v1/jobs", tasks=tasks)

    assert (response.status_code, response.json()["code"]) == (400, "invalid_job")
    assert await orchestrator.list() == []


async def test_an_unknown_job_is_refused(orchestrator: Api) -> None:
    refused(await orchestrator.client.get(f"/v1/jobs/{unknown_id()}"), 404, "job_not_found")
    refused(await orchestrator.client.get("/v1/jobs/17"), 400, "invalid", "id")


async def test_status_words_of_a_job_that_is_completed(orchestrator: Api) -> None:
    job_id, ids = await make(orchestrator)
    for number in range(len(GRAPH)):
        task = await take(orchestrator)
        status, tasks = await job_of(orchestrator, job_id)
        assert (status, tasks[task["name"]]["phase"]) == ("running", "held")
        assert await runs_of(orchestrator, task["id"]) == [None]
        await orchestrator.complete(task["id"], delivery=1, result=number)

    status, tasks = await job_of(orchestrator, job_id)

    assert (status, {task["phase"] for task in tasks.values()}) == ("completed", {"completed"})
    assert [await runs_of(orchestrator, task_id) for task_id in ids.values()] == [["succeeded"]] * 4


async def test_status_words_of_a_job_that_failed(orchestrator: Api) -> None:
    job_id, ids = await make(orchestrator)
    extract = await take(orchestrator)
    await orchestrator.complete(extract["id"], delivery=1)
    left = await take(orchestrator)
    done(await orchestrator.post(f"/v1/tasks/{left['id']}/fail", delivery=1, error="broken", retryable=False))

    status, tasks = await job_of(orchestrator, job_id)
    assert status == "running"
    assert {name: task["phase"] for name, task in tasks.items()} == {
        "extract": "completed",
        "left": "failed",
        "right": "ready",
        "load": "canceled",
    }
    assert (tasks["left"]["last_error"], tasks["load"]["canceled_by"]) == ("broken", "parent")

    right = await take(orchestrator)
    await orchestrator.complete(right["id"], delivery=1)
    status, _ = await job_of(orchestrator, job_id)
    assert status == "failed"
    assert await runs_of(orchestrator, ids["left"]) == ["failed"]


async def test_status_words_of_a_job_that_is_canceled(orchestrator: Api) -> None:
    job_id, _ = await make(orchestrator)

    done(await orchestrator.post(f"/v1/jobs/{job_id}/cancel"))

    status, tasks = await job_of(orchestrator, job_id)
    assert (status, {task["canceled_by"] for task in tasks.values()}) == ("canceled", {"job"})


async def test_reclaiming_uses_no_attempt_up(orchestrator: Api) -> None:
    task = task_of(await orchestrator.post("/v1/tasks", kind="email", payload={}), 201)
    for _ in range(4):
        await take(orchestrator)
        assert await orchestrator.clean_up(FUTURE) == 1
    held = await take(orchestrator)

    assert (held["attempt"], held["lost"], held["delivery"]) == (0, 4, 5)
    assert await runs_of(orchestrator, task["id"]) == ["dead"] * 4 + [None]
    failed = done(await orchestrator.post(f"/v1/tasks/{task['id']}/fail", delivery=5, error="once"))["task"]
    assert (failed["phase"], failed["current_state"], failed["attempt"]) == ("parked", "submitted-retrying", 1)


async def test_workers_that_were_seen_lately(orchestrator: Api, queue: str) -> None:
    worker_id = f"a-{queue}"
    done(await orchestrator.post("/v1/tasks/heartbeat", worker_id=worker_id))

    listed = done(await orchestrator.client.get("/v1/workers?active_since=2m"))["workers"]

    assert worker_id in {worker["worker_id"] for worker in listed}
    for wrong in ("0", "-2m", "soon", ""):
        response = await orchestrator.client.get("/v1/workers", params={"active_since": wrong})
        refused(response, 400, "invalid", "active_since")


async def test_health_and_metrics(orchestrator: Api) -> None:
    assert done(await orchestrator.client.get("/healthz"))["status"] == "ok"
    assert done(await orchestrator.client.get("/readyz"))["checks"]["database"] == "ok"
    metrics = await orchestrator.client.get("/metrics")
    assert metrics.status_code == 200
    assert "\ncorndog_redis_available " in metrics.text
