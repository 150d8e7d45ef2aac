"""Trial S49: one odd queue name through every call that takes a queue; all calls agree."""

from urllib.parse import quote

import pytest

from tests.api.calls import FUTURE, Api, done

NAMES = [
    "a/b+c %2F?#é😀",
    "../..",
    "a&b=c;d",
    " leading and trailing ",
    "%",
    "+",
    "\u202e\u200d",
    "q" * 255,
    "😀" * 255,
    "é/" * 127,
]


@pytest.mark.parametrize("name", NAMES)
async def test_every_call_agrees_on_the_name(api: Api, name: str) -> None:
    # The name stays as it is: tests keep out of each other's way by the state.
    state = api.queue
    submitted = await api.submit(queue=name, current_state=state)
    raw = done(
        await api.client.post(
            f"/v1/tasks/raw?queue={quote(name, safe='')}&current_state={quote(state)}", content=b"raw"
        ),
        201,
    )["task"]
    both = [submitted["id"], raw["id"]]
    assert (submitted["queue"], raw["queue"]) == (name, name)

    listed = done(await api.client.get("/v1/tasks", params={"queue": name, "current_state": state}))["tasks"]
    assert [task["id"] for task in listed] == both
    counted = done(await api.client.get("/v1/state-counts", params={"queue": name}))
    assert (counted["queue"], counted["state_counts"][state]) == (name, 2)
    assert name in done(await api.client.get("/v1/queues"))["queues"]
    assert done(await api.client.get("/v1/queues/task-counts"))["queue_counts"][name] >= 2
    by_state = done(await api.client.get("/v1/queues/state-counts"))["queue_and_state_counts"]
    assert (by_state[name]["queue"], by_state[name]["state_counts"][state]) == (name, 2)

    [first] = await api.claim(queue=name, current_state=state)
    [second] = await api.claim(queues=["elsewhere", name], current_state=state)
    assert [first["id"], second["id"]] == both
    assert {(await api.get(task_id))["queue"] for task_id in both} == {name}

    cleaned = done(await api.post("/v1/cleanup-timed-out", queue=name, at_time=FUTURE))
    assert cleaned["timed_out"] >= 2
    [first, second] = await api.claim(queue=name, current_state=state, count=2)
    released = await api.release(first["id"], queue=name, delivery=2)
    assert released["task"]["queue"] == name
    moved = await api.update(second["id"], queue=name, delivery=2, new_state=f"{state}-moved")
    assert moved["task"]["queue"] == name
    completed = await api.complete(
        second["id"],
        queue=name,
        current_state=f"{state}-moved",
        next_task={"queue": name, "current_state": f"{state}-next"},
    )
    next_task = await api.get(completed["next_tasks"][0])
    assert (next_task["queue"], completed["task"]["queue"]) == (name, name)
    for task_id in (first["id"], next_task["id"]):
        assert (await api.cancel(task_id, queue=name))["task"]["queue"] == name
    archived = done(await api.client.get("/v1/tasks", params={"queue": name, "archived": "true"}))["tasks"]
    assert {first["id"], second["id"], next_task["id"]} <= {task["id"] for task in archived}


@pytest.mark.parametrize("name", ["", "q" * 256, "q" * 3000, "q\n", "\u0000"])
async def test_every_call_refuses_a_name_that_is_none(api: Api, name: str) -> None:
    held = await api.submit_held()
    path = f"/v1/tasks/{held['id']}"
    match = {"queue": name, "delivery": 1}

    refusals = [
        (await api.try_submit(queue=name), "queue"),
        (await api.client.post("/v1/tasks/raw", params={"queue": name}), "queue"),
        (await api.try_claim(queue=name), "queue"),
        (await api.client.get("/v1/tasks", params={"queue": name}), "queue"),
        (await api.client.get("/v1/state-counts", params={"queue": name}), "queue"),
        (await api.post("/v1/cleanup-timed-out", queue=name), "queue"),
        (await api.client.patch(path, json=match), "queue"),
        (await api.post(f"{path}/complete", **match), "queue"),
        (await api.post(f"{path}/complete", delivery=1, next_task={"queue": name}), "next_task.queue"),
        (await api.post(f"{path}/release", **match), "queue"),
        (await api.post(f"{path}/cancel", **match), "queue"),
    ]

    for refusal, field in refusals:
        await api.refuses_to_change(held, refusal, 400, "invalid", field)
