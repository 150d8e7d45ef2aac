"""Completing and failing many tasks in one call: design section 9 (batch answers), with the rules of section 3."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec
import pytest

from corndog.settings import Settings
from tests.api.calls import JSON, MSGPACK, PROBLEM, Api, Fields, after, done, refused, unknown_id
from tests.servers import running_server

COMPLETE = "/v1/tasks/complete"
FAIL = "/v1/tasks/fail"
MANY = pytest.mark.parametrize("path", [COMPLETE, FAIL])


async def post(api: Api, path: str, *items: object, prefer: str | None = None, **query: str) -> httpx.Response:
    headers = {} if prefer is None else {"Prefer": prefer}
    return await api.client.post(path, json={"tasks": items}, params=query, headers=headers)


async def held(api: Api, number: int, **fields: Any) -> list[Fields]:  # noqa: ANN401
    """Submit tasks and claim them all."""
    done(await api.post("/v1/tasks/batch", tasks=[{"queue": api.queue} | fields] * number))
    tasks = await api.claim(count=number)
    assert len(tasks) == number
    return tasks


def item(task: Fields, **fields: Any) -> Fields:  # noqa: ANN401
    """Name a held task as its holder does."""
    return {"id": task["id"], "delivery": task["delivery"]} | fields


def problem_of(result: Fields, status: int, code: str, field: str | None = None) -> Fields:
    """See that an item was refused as a call would be."""
    assert result.keys() == {"status", "problem"}
    request = httpx.Request("POST", "http://server/v1/tasks/x/complete")
    as_call = httpx.Response(
        result["status"], json=result["problem"], headers={"content-type": PROBLEM}, request=request
    )
    return refused(as_call, status, code, field)


def statuses(answer: Fields) -> list[int]:
    return [result["status"] for result in answer["results"]]


async def all_are_as_before(api: Api, tasks: Sequence[Fields]) -> None:
    """See that nothing has happened in the queue but that these tasks were claimed."""
    assert {task["id"] for task in await api.list(limit=1000)} == {task["id"] for task in tasks}
    for task in tasks:
        now = await api.get(task["id"])
        assert (now["phase"], now["delivery"], now["attempt"]) == ("held", task["delivery"], task["attempt"])
    assert await api.list(archived=True) == []


# Each by itself ---------------------------------------------------------------


async def test_completions_are_answered_in_the_order_of_their_items(api: Api) -> None:
    tasks = (await held(api, 30))[::-1]

    answer = done(await post(api, COMPLETE, *(item(task, result=place) for place, task in enumerate(tasks))))

    assert answer.keys() == {"results", "failed"}
    assert answer["failed"] == 0
    assert [result["id"] for result in answer["results"]] == [task["id"] for task in tasks]
    for place, result in enumerate(answer["results"]):
        assert result.keys() == {"status", "id", "task", "replayed", "next_tasks"}
        assert (result["status"], result["replayed"], result["next_tasks"]) == (200, False, [])
        assert result["task"]["phase"] == "completed"
        stored = await api.get(result["id"], include="result")
        assert stored.pop("result") == place
        assert stored.pop("result_content_type") == JSON
        assert result["task"] == stored
    assert await api.counts() == {}


async def test_failures_are_answered_in_the_order_of_their_items(api: Api) -> None:
    tasks = (await held(api, 6, backoff=60, jitter="none"))[::-1]

    answer = done(
        await post(api, FAIL, *(item(task, error=str(n), retryable=n % 2 == 0) for n, task in enumerate(tasks)))
    )

    assert [result["id"] for result in answer["results"]] == [task["id"] for task in tasks]
    assert all(result.keys() == {"status", "id", "task", "replayed"} for result in answer["results"])
    assert [result["task"]["last_error"] for result in answer["results"]] == list("012345")
    assert [result["task"]["phase"] for result in answer["results"]] == ["parked", "failed"] * 3
    assert await api.counts() == {"submitted-retrying": 3}


async def test_every_refusal_stands_at_its_item(api: Api) -> None:
    right, stale, other, ended = await held(api, 4)
    await api.cancel(ended["id"])
    _, names = await api.submit_job({"name": "root"}, after("root", name="child"))
    missing = unknown_id()
    cases: list[tuple[object, int, str, str | None]] = [
        ({"id": missing, "delivery": 1}, 404, "task_not_found", None),
        ({"id": stale["id"], "delivery": 7}, 409, "stale_delivery", None),
        ({"id": stale["id"], "current_state": "submitted-working"}, 409, "held", None),
        ({"id": other["id"], "delivery": 1, "current_state": "x"}, 409, "state_mismatch", None),
        ({"id": other["id"], "delivery": 1, "queue": "x"}, 409, "queue_mismatch", None),
        ({"id": ended["id"], "delivery": 1}, 409, "ended", None),
        ({"id": names["child"], "current_state": "submitted-blocked"}, 409, "blocked", None),
        ({"id": other["id"]}, 400, "invalid", "current_state"),
        ({"id": "x", "delivery": 1}, 400, "invalid", "id"),
        ({"delivery": 1}, 400, "invalid", "id"),
        ({"id": other["id"], "delivery": "1"}, 400, "invalid", "delivery"),
        ({"id": other["id"], "delivery": 1, "x": 1}, 400, "unknown_field", "x"),
        ({"id": other["id"], "delivery": 1, "claim": {}}, 400, "unknown_field", "claim"),
        ({"id": other["id"], "delivery": 1, "result": 1, "result_base64": ""}, 400, "invalid", "result_base64"),
        ({"id": other["id"], "delivery": 1, "next_task": {"timeout": 5}}, 400, "invalid", "next_task.timeout"),
        ({"id": other["id"], "delivery": 1, "next_tasks": [{}, {"queue": ""}]}, 400, "invalid", "next_tasks[1].queue"),
        (5, 400, "invalid", None),
        (None, 400, "invalid", None),
        ([], 400, "invalid", None),
    ]

    answer = done(await post(api, COMPLETE, *(case[0] for case in cases), item(right)))

    for result, (_, status, code, field) in zip(answer["results"], cases, strict=False):
        problem_of(result, status, code, field)
    assert answer["results"][-1]["id"] == right["id"]
    assert (answer["failed"], statuses(answer)[-1]) == (len(cases), 200)
    assert [task["id"] for task in await api.list(archived=True, phase="completed")] == [right["id"]]


async def test_every_refusal_of_a_failure_stands_at_its_item(api: Api) -> None:
    [right, stale] = await held(api, 2, backoff=60)
    ready = await api.submit()
    cases: list[tuple[object, int, str, str | None]] = [
        ({"id": unknown_id(), "delivery": 1}, 404, "task_not_found", None),
        ({"id": stale["id"], "delivery": 2}, 409, "stale_delivery", None),
        ({"id": ready["id"], "delivery": 1}, 409, "stale_delivery", None),
        ({"id": stale["id"]}, 400, "invalid", "delivery"),
        ({"id": stale["id"], "delivery": 1, "retry_in": -1}, 400, "invalid", "retry_in"),
        ({"id": stale["id"], "delivery": 1, "retry_in": 1, "retryable": False}, 400, "invalid", "retry_in"),
        ("x", 400, "invalid", None),
    ]

    answer = done(await post(api, FAIL, *(case[0] for case in cases), item(right)))

    for result, (_, status, code, field) in zip(answer["results"], cases, strict=False):
        problem_of(result, status, code, field)
    assert (answer["failed"], statuses(answer)[-1]) == (len(cases), 200)
    assert (await api.get(stale["id"]))["attempt"] == 0


@MANY
async def test_the_same_item_twice_is_a_replay(api: Api, path: str) -> None:
    for _ in range(5):
        task, other = await held(api, 2)

        answer = done(await post(api, path, item(task), item(other), item(task), item(task)))

        assert statuses(answer) == [200] * 4
        assert [result["replayed"] for result in answer["results"]] == [False, False, True, True]
        assert answer["results"][0]["task"] == answer["results"][2]["task"]


@MANY
async def test_of_two_items_of_a_task_the_first_counts(api: Api, path: str) -> None:
    code = "other_request"
    for _ in range(5):
        task, *others = await held(api, 5)
        second = item(task, **({"result": 2} if path == COMPLETE else {"error": "second"}))

        answer = done(await post(api, path, item(task), *map(item, others), second))

        problem_of(answer["results"][-1], 409, code)
        assert (answer["failed"], statuses(answer)[:-1]) == (1, [200] * 5)


async def test_a_batch_whose_answer_was_lost_is_sent_again(api: Api) -> None:
    tasks = await held(api, 5)
    items = [
        item(tasks[0], result=1),
        item(tasks[1], next_task={"queue": api.queue, "current_state": "next"}),
        item(tasks[2], delivery=9),
        7,
        item(tasks[3], next_tasks=[{"queue": api.queue, "current_state": "next"}] * 2),
        item(tasks[4]),
    ]
    first = done(await post(api, COMPLETE, *items))
    assert statuses(first) == [200, 200, 409, 400, 200, 200]

    again = done(await post(api, COMPLETE, *items))

    for before, now in zip(first["results"], again["results"], strict=True):
        assert now == (before | {"replayed": True} if before["status"] == 200 else before)
    assert again["failed"] == first["failed"] == 2
    assert (await api.counts())["next"] == 3


async def test_failures_that_were_told_already_are_replayed(api: Api) -> None:
    tasks = await held(api, 3, backoff=60, jitter="none")
    items = [item(tasks[0], error="a"), item(tasks[1], retryable=False), item(tasks[2], retry_in=90)]
    first = done(await post(api, FAIL, *items))

    again = done(await post(api, FAIL, *items))

    assert again["results"] == [result | {"replayed": True} for result in first["results"]]


async def test_next_tasks_are_submitted_with_their_items(api: Api) -> None:
    tasks = await held(api, 20)
    items = [item(task, next_task={"queue": api.queue, "payload": task["id"]}) for task in tasks]
    items[3]["delivery"] = 9

    answer = done(await post(api, COMPLETE, *items))

    made = [result["next_tasks"][0] for result in answer["results"] if result["status"] == 200]
    assert len(set(made)) == 19
    payloads = [(await api.get(task_id, include="payload"))["payload"] for task_id in made]
    assert payloads == [task["id"] for place, task in enumerate(tasks) if place != 3]
    assert (await api.counts()) == {"submitted": 19, "submitted-working": 1}


async def test_held_and_unheld_tasks_are_completed_together(api: Api) -> None:
    ready, parked = await api.submit(current_state="a"), await api.submit(delay=60)
    [one] = await held(api, 1)

    answer = done(
        await post(
            api,
            COMPLETE,
            {"id": parked["id"], "current_state": "submitted-scheduled"},
            item(one),
            {"id": ready["id"], "current_state": "a"},
        )
    )

    assert [result["task"]["delivery"] for result in answer["results"]] == [0, 1, 0]


# Jobs -------------------------------------------------------------------------


async def test_the_last_parent_of_a_batch_opens_what_waits(api: Api) -> None:
    roots = [{"name": f"root{number}"} for number in range(8)]
    names = [root["name"] for root in roots]
    job, _ = await api.submit_job(*roots, after(*names, name="all"), after(*names[:4], name="half"))
    tasks = await api.claim_names()

    answer = done(await post(api, COMPLETE, *(item(tasks[name]) for name in names[:4])))
    assert answer["failed"] == 0
    assert {name: task["phase"] for name, task in (await api.job_tasks(job)).items() if name in {"all", "half"}} == {
        "all": "parked",
        "half": "ready",
    }

    done(await post(api, COMPLETE, *(item(tasks[name]) for name in names[4:]), atomic="true"))
    [last] = [task for task in await api.claim(count=9) if task["name"] == "all"]
    assert last["waiting_on"] == 0


@pytest.mark.parametrize("query", [{}, {"atomic": "true"}], ids=["each", "atomic"])
async def test_a_final_failure_of_a_batch_cancels_what_waits(api: Api, query: dict[str, str]) -> None:
    job, _ = await api.submit_job(
        {"name": "dies", "max_attempts": 1},
        {"name": "lives", "backoff": 60},
        after("dies", name="child"),
        after("child", "lives", name="grandchild"),
        after("dies", name="runs", on_parent_failure="run"),
        after("lives", name="waits"),
    )
    tasks = await api.claim_names()

    answer = done(await post(api, FAIL, item(tasks["lives"]), item(tasks["dies"], error="e"), **query))

    assert [result["task"]["name"] for result in answer["results"]] == ["lives", "dies"]
    assert [result["task"]["phase"] for result in answer["results"]] == ["parked", "failed"]
    assert {name: task["phase"] for name, task in (await api.job_tasks(job)).items()} == {
        "dies": "failed",
        "lives": "parked",
        "child": "canceled",
        "grandchild": "canceled",
        "runs": "ready",
        "waits": "parked",
    }


@pytest.mark.parametrize("next_task", [True, False], ids=["with next", "alone"])
async def test_a_child_is_not_completed_with_its_parent(api: Api, *, next_task: bool) -> None:
    job, ids = await api.submit_job({"name": "parent"}, after("parent", name="child"))
    tasks = await api.claim_names()
    more: Fields = {"next_task": {"queue": api.queue, "current_state": "next"}} if next_task else {}
    child = {"id": ids["child"], "current_state": "submitted-blocked"} | more

    answer = done(await post(api, COMPLETE, item(tasks["parent"], **more), child))

    assert answer["results"][0]["task"]["phase"] == "completed"
    # Whether it was still blocked is a matter of time; it was not completed in either case.
    assert answer["results"][1]["problem"]["code"] in {"blocked", "state_mismatch"}
    now = (await api.job_tasks(job))["child"]
    assert (now["phase"], now["current_state"]) == ("ready", "submitted")
    assert (await api.counts()).get("next", 0) == next_task


async def test_an_atomic_batch_of_parent_and_child_is_refused(api: Api) -> None:
    job, ids = await api.submit_job({"name": "parent"}, after("parent", name="child"))
    tasks = await api.claim_names()
    before = await api.job_tasks(job)

    completion = await post(
        api, COMPLETE, item(tasks["parent"]), {"id": ids["child"], "current_state": "submitted-blocked"}, atomic="true"
    )
    refused(completion, 409, "blocked", "tasks[1]")
    failure = await post(
        api, FAIL, {"id": ids["child"], "delivery": 1}, item(tasks["parent"], retryable=False), atomic="true"
    )
    refused(failure, 409, failure.json()["code"], "tasks[0]")

    assert await api.job_tasks(job) == before


# All or none ------------------------------------------------------------------


@MANY
async def test_an_atomic_batch_is_written_as_a_whole(api: Api, path: str) -> None:
    tasks = (await held(api, 10, backoff=60))[::-1]

    answer = done(await post(api, path, *map(item, tasks), atomic="true"))

    assert [result["id"] for result in answer["results"]] == [task["id"] for task in tasks]
    assert (answer["failed"], {result["replayed"] for result in answer["results"]}) == (0, {False})
    assert await api.counts() == ({} if path == COMPLETE else {"submitted-retrying": 10})


REFUSED: list[tuple[Fields, int, str, str]] = [
    ({"delivery": 9}, 409, "stale_delivery", "tasks[2]"),
    ({"id": unknown_id()}, 404, "task_not_found", "tasks[2]"),
    ({"queue": "x"}, 409, "queue_mismatch", "tasks[2]"),
    ({"id": "x"}, 400, "invalid", "tasks[2].id"),
    ({"unknown": 1}, 400, "unknown_field", "tasks[2].unknown"),
    ({"delivery": -1}, 400, "invalid", "tasks[2].delivery"),
]


@MANY
@pytest.mark.parametrize(("wrong", "status", "code", "field"), REFUSED, ids=[case[3] + case[2] for case in REFUSED])
async def test_one_refusal_refuses_an_atomic_batch(
    api: Api, path: str, wrong: Fields, status: int, code: str, field: str
) -> None:
    tasks = await held(api, 4)
    items = [item(task) for task in tasks]
    items[2] |= wrong

    refused(await post(api, path, *items, atomic="true"), status, code, field)

    await all_are_as_before(api, tasks)


async def test_an_atomic_completion_names_what_breaks_a_rule(api: Api) -> None:
    tasks = await held(api, 2)

    nothing_given = await post(api, COMPLETE, item(tasks[0]), {"id": tasks[1]["id"]}, atomic="true")
    refused(nothing_given, 400, "invalid", "tasks[1].current_state")
    wrong_next = item(tasks[1], next_task={"timeout": 5})
    refused(await post(api, COMPLETE, item(tasks[0]), wrong_next, atomic="true"), 400, "invalid",
            "tasks[1].next_task.timeout")  # fmt: skip
    several = (await post(api, COMPLETE, 5, item(tasks[0]), wrong_next, {"id": 1}, atomic="true")).json()
    assert [error["field"] for error in several["errors"]] == ["tasks[0]", "tasks[2].next_task.timeout", "tasks[3].id"]

    await all_are_as_before(api, tasks)


@MANY
async def test_an_atomic_batch_names_each_task_once(api: Api, path: str) -> None:
    tasks = await held(api, 2)

    refused(await post(api, path, *map(item, tasks), item(tasks[0]), atomic="true"), 409, "other_request", "tasks[2]")
    again = [{"id": unknown_id(), "delivery": 1}] * 2
    refused(await post(api, path, item(tasks[0]), *again, atomic="true"), 404, "task_not_found", "tasks[2]")

    await all_are_as_before(api, tasks)


@MANY
async def test_a_repeated_atomic_batch_is_a_replay(api: Api, path: str) -> None:
    tasks = await held(api, 4, max_attempts=1)
    items = [item(task) for task in tasks]
    if path == COMPLETE:
        items[1]["next_tasks"] = [{"queue": api.queue, "current_state": "next"}] * 2
    first = done(await post(api, path, *items, atomic="true"))

    again = done(await post(api, path, *items, atomic="true"))

    assert again["results"] == [result | {"replayed": True} for result in first["results"]]
    assert again["failed"] == 0
    assert (await api.counts()).get("next", 0) == (2 if path == COMPLETE else 0)


@MANY
async def test_an_atomic_batch_of_old_and_new(api: Api, path: str) -> None:
    tasks = await held(api, 6, backoff=60)
    items = [item(task) for task in tasks]
    early = done(await post(api, path, *items[1::2]))

    answer = done(await post(api, path, *items, atomic="true"))

    assert [result["replayed"] for result in answer["results"]] == [False, True] * 3
    assert [result["id"] for result in answer["results"]] == [task["id"] for task in tasks]
    assert [result["task"] for result in answer["results"][1::2]] == [result["task"] for result in early["results"]]


async def test_an_atomic_batch_is_refused_though_some_was_done_before(api: Api) -> None:
    tasks = await held(api, 3)
    await api.complete(tasks[0]["id"], delivery=1)

    refused(
        await post(api, COMPLETE, item(tasks[0]), item(tasks[1]), item(tasks[2], delivery=5), atomic="true"),
        409,
        "stale_delivery",
        "tasks[2]",
    )
    refused(
        await post(api, COMPLETE, item(tasks[1]), item(tasks[0], result=1), atomic="true"),
        409,
        "other_request",
        "tasks[1]",
    )

    assert [(await api.get(task["id"]))["phase"] for task in tasks] == ["completed", "held", "held"]


async def test_some_of_an_atomic_batch_are_retried_and_some_end(api: Api) -> None:
    once = await held(api, 2, max_attempts=1)
    more = await held(api, 2, backoff=60)
    final = await held(api, 1)
    items = [item(more[0]), item(once[0]), item(final[0], retryable=False), item(more[1], retry_in=5), item(once[1])]

    answer = done(await post(api, FAIL, *items, atomic="true"))

    phases = [result["task"]["phase"] for result in answer["results"]]
    assert phases == ["parked", "failed", "failed", "parked", "failed"]
    assert [result["task"]["attempt"] for result in answer["results"]] == [1] * 5
    refused(await post(api, FAIL, *items[:-1], item(once[1], error="x"), atomic="true"), 409, "other_request",
            "tasks[4]")  # fmt: skip


async def test_atomic_batches_over_the_same_tasks_do_not_mix(api: Api) -> None:
    for _ in range(5):
        tasks = await held(api, 10)
        batches = [
            [item(task, result=number) for task in (tasks[::-1] if number % 2 else tasks)[number:]]
            for number in range(4)
        ]

        answers = await asyncio.gather(*(post(api, COMPLETE, *batch, atomic="true") for batch in batches))

        codes = [answer.status_code for answer in answers]
        assert codes.count(200) >= 1
        assert set(codes) <= {200, 409}
        results = {task["id"]: (await api.get(task["id"], include="result")).get("result", "held") for task in tasks}
        for number, (code, batch) in enumerate(zip(codes, batches, strict=True)):
            written = [results[one["id"]] == number for one in batch]
            assert all(written) if code == 200 else not any(written)
        for task_id, result in results.items():
            if result == "held":
                await api.cancel(task_id)


# What is sent -----------------------------------------------------------------


@MANY
@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ("", "malformed_body", None),
        ('{"tasks": [{}', "malformed_body", None),
        ("[]", "invalid", None),
        ("{}", "invalid", "tasks"),
        ('{"tasks": []}', "invalid", "tasks"),
        ('{"tasks": null}', "invalid", "tasks"),
        ('{"tasks": {}}', "invalid", "tasks"),
        ('{"tasks": [{}], "x": 1}', "unknown_field", "x"),
        ('{"tasks": [{}], "idempotency_key": "k"}', "unknown_field", "idempotency_key"),
    ],
    ids=lambda value: str(value)[:24],
)
async def test_a_malformed_batch_is_refused_as_a_whole(
    api: Api, path: str, body: str, code: str, field: str | None
) -> None:
    refused(await api.send("POST", path, body), 400, code, field)


@MANY
@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ("atomic=maybe", "invalid", "atomic"),
        ("atomic=", "invalid", "atomic"),
        ("atomic=true&atomic=true", "invalid", "atomic"),
        ("x=1", "unknown_field", "x"),
    ],
)
async def test_a_wrong_parameter_is_refused(api: Api, path: str, query: str, code: str, field: str) -> None:
    [task] = await held(api, 1)

    refused(await api.client.post(f"{path}?{query}", json={"tasks": [item(task)]}), 400, code, field)

    await all_are_as_before(api, [task])


@MANY
@pytest.mark.parametrize("query", [{}, {"atomic": "true"}], ids=["each", "atomic"])
async def test_a_thousand_items_are_allowed_and_no_more(api: Api, path: str, query: dict[str, str]) -> None:
    tasks = await held(api, 1000, backoff=60)
    items = [item(task) for task in tasks]
    problem = refused(await post(api, path, *items, items[0], **query), 400, "invalid", "tasks")
    assert "1000" in problem["detail"]
    assert await api.counts() == {"submitted-working": 1000}

    answer = done(await post(api, path, *items, **query))

    assert [result["id"] for result in answer["results"]] == [task["id"] for task in tasks]
    assert answer["failed"] == 0
    again = done(await post(api, path, *items, **query))
    assert {(result["status"], result["replayed"]) for result in again["results"]} == {(200, True)}


async def test_the_limits_are_those_of_the_server(api_database_url: str, redis_url: str, queue: str) -> None:
    settings = Settings(
        database_url=api_database_url,
        redis_url=redis_url,
        max_batch_items=3,
        max_payload_bytes=10,
        max_body_bytes=2000,
        scheduler=False,
    )
    with running_server(settings) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            api = Api(client, queue)
            tasks = await held(api, 3)
            items = [item(tasks[0], result="x" * 8), item(tasks[1], result="x" * 9), item(tasks[2])]
            refused(await post(api, COMPLETE, *items, items[0]), 400, "invalid", "tasks")
            refused(await post(api, COMPLETE, item(tasks[0], result="x" * 2000)), 413, "too_large", "body")
            refused(await post(api, COMPLETE, *items, atomic="true"), 413, "too_large", "tasks[1].result")
            await all_are_as_before(api, tasks)

            answer = done(await post(api, COMPLETE, *items))

            assert statuses(answer) == [200, 413, 200]
            problem_of(answer["results"][1], 413, "too_large", "result")


async def test_messagepack_both_ways(api: Api) -> None:
    tasks = await held(api, 3)
    items = [
        item(tasks[0], result=b'{"a": 1}'),
        item(tasks[1], delivery="1"),
        item(tasks[2], result_base64=b"\x00\xff"),
    ]
    headers = {"Content-Type": MSGPACK, "Accept": MSGPACK, "Prefer": "return=minimal"}

    response = await api.client.post(COMPLETE, content=msgspec.msgpack.encode({"tasks": items}), headers=headers)

    assert (response.status_code, response.headers["content-type"]) == (200, MSGPACK)
    assert response.headers["preference-applied"] == "return=minimal"
    answer = msgspec.msgpack.decode(response.content)
    assert statuses(answer) == [200, 400, 200]
    assert answer["results"][1]["problem"]["field"] == "delivery"
    assert answer["results"][0].keys() == {"status", "id", "replayed", "next_tasks"}
    assert (await api.get(tasks[0]["id"], include="result"))["result"] == {"a": 1}
    assert (await api.get(tasks[2]["id"], include="result"))["result_base64"] == "AP8="


PREFERRED = [
    "return=minimal",
    "RETURN=Minimal",
    'return = "minimal" ;',
    "respond-async, return=minimal",
    "return=minimal; note=1",
    "wait=5,\treturn=minimal",
    "return=minimal, return=representation",
]
NOT_PREFERRED = [
    "",
    "minimal",
    "return",
    "return=",
    "return=representation",
    "return=representation, return=minimal",
    "x-return=minimal",
    "foo; return=minimal",
    "return=minimal2",
    ",;=,\xff",
]


@pytest.mark.parametrize("prefer", [*PREFERRED, *NOT_PREFERRED])
async def test_tasks_are_left_out_where_that_is_preferred(api: Api, prefer: str) -> None:
    [task] = await held(api, 1)
    request: Fields = {"tasks": [item(task), 5]}
    headers = {"Prefer": prefer.encode("latin-1")}

    response = await api.client.post(COMPLETE, json=request, headers=headers)  # type: ignore[arg-type]

    is_minimal = prefer in PREFERRED
    right, wrong = done(response)["results"]
    assert ("task" in right) is not is_minimal
    assert (right["id"], right["next_tasks"], right["replayed"]) == (task["id"], [], False)
    problem_of(wrong, 400, "invalid")
    assert response.headers.get("preference-applied") == ("return=minimal" if is_minimal else None)


async def test_a_minimal_answer_of_the_other_calls(api: Api) -> None:
    submitted = await api.client.post(
        "/v1/tasks/batch", json={"tasks": [{"queue": api.queue}, 5]}, headers={"Prefer": "return=minimal"}
    )
    first, second = done(submitted)["results"]
    assert first.keys() == {"status", "id"}
    problem_of(second, 400, "invalid")
    [task] = await api.claim()

    failed = await post(api, FAIL, item(task), prefer="return=minimal")

    assert done(failed) == {"results": [{"status": 200, "id": task["id"], "replayed": False}], "failed": 0}
    assert failed.headers["preference-applied"] == "return=minimal"
    both = [("Prefer", "respond-async"), ("Prefer", "return=minimal")]
    again = await api.client.post(FAIL, json={"tasks": [item(task)]}, headers=both)
    assert again.headers["preference-applied"] == "return=minimal"


@MANY
async def test_other_methods_are_told_what_there_is(api: Api, path: str) -> None:
    options = await api.client.options(path)
    assert (options.status_code, options.headers["allow"]) == (204, "OPTIONS, POST")
    assert (await api.client.put(path)).status_code == 405
