"""Claiming: design section 3, row `claim`, and the rulings on order."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from tests.api.calls import Api, refused, seconds_between


async def test_a_claim_swaps_the_states_and_starts_the_clock(api: Api) -> None:
    submitted = await api.submit(current_state="a", auto_target_state="b", work_timeout=60, payload={"x": 1})

    [held] = await api.claim(current_state="a", worker_id="w1")

    assert (held["phase"], held["current_state"], held["auto_target_state"]) == ("held", "b", "a")
    assert (held["home_state"], held["home_target"]) == ("a", "b")
    assert (held["delivery"], held["held_by"], held["timeout"], held["attempt"]) == (1, "w1", 60.0, 0)
    assert seconds_between(held["claim_time"], held["due_time"]) == 60
    assert held["update_time"] == held["claim_time"] > submitted["update_time"]
    assert held["submit_time"] == submitted["submit_time"]
    assert (held["payload"], held["content_type"]) == ({"x": 1}, "application/json")
    assert await api.get(held["id"], include="payload") == held


async def test_overrides_apply_after_the_swap(api: Api) -> None:
    await api.submit(current_state="a", auto_target_state="b", work_timeout=60)

    [held] = await api.claim(
        current_state="a", override_current_state="x", override_auto_target_state="y", override_timeout=1.5
    )

    assert (held["current_state"], held["auto_target_state"], held["timeout"]) == ("x", "y", 1.5)
    assert (held["home_state"], held["home_target"]) == ("a", "b")
    assert held["work_timeout"] == 60.0
    assert seconds_between(held["claim_time"], held["due_time"]) == 1.5


@pytest.mark.parametrize(
    ("override", "states"),
    [({"override_current_state": "x"}, ("x", "a")), ({"override_auto_target_state": "y"}, ("b", "y"))],
)
async def test_each_override_works_alone(api: Api, override: dict[str, Any], states: tuple[str, str]) -> None:
    await api.submit(current_state="a", auto_target_state="b")

    [held] = await api.claim(current_state="a", **override)

    assert (held["current_state"], held["auto_target_state"]) == states


async def test_overrides_apply_to_each_task(api: Api) -> None:
    for _ in range(3):
        await api.submit()

    held = await api.claim(count=3, override_current_state="x", override_timeout=0)

    assert [(task["current_state"], task["timeout"], task["due_time"]) for task in held] == [("x", None, None)] * 3


@pytest.mark.parametrize(
    ("work_timeout", "override", "clock"),
    [
        (None, None, 300.0),
        (60, None, 60.0),
        (0, None, None),
        (60, 0, None),
        (None, 0, None),
        (0, 2, 2.0),
        (60, 0.000001, 0.000001),
    ],
)
async def test_the_clock_is_the_override_else_the_tasks_else_the_default(
    api: Api, work_timeout: float | None, override: float | None, clock: float | None
) -> None:
    await api.submit(work_timeout=work_timeout)

    [held] = await api.claim(override_timeout=override)

    assert held["timeout"] == clock
    assert (held["due_time"] is None) == (clock is None)


async def test_a_claim_replaces_the_clock_that_the_task_was_given(api: Api) -> None:
    await api.submit(auto_target_state="late", timeout=3600)

    [held] = await api.claim(override_timeout=0)

    assert (held["timeout"], held["due_time"]) == (None, None)


async def test_nothing_there_is_an_empty_list(api: Api) -> None:
    await api.submit(current_state="other")
    await api.submit(queue=f"{api.queue}-other")

    assert await api.claim() == []
    assert await api.claim(count=1000) == []


async def test_held_and_parked_tasks_cant_be_claimed_by_any_state(api: Api) -> None:
    held = await api.submit_held()
    parked = await api.submit(delay=3600)
    assert parked["current_state"] == "submitted-scheduled"

    for state in ("submitted", "submitted-working", "submitted-scheduled"):
        assert await api.claim(current_state=state, count=10) == []

    assert (await api.get(held["id"]))["delivery"] == 1
    assert (await api.get(parked["id"]))["phase"] == "parked"


async def test_order_is_priority_then_submit_time(api: Api) -> None:
    priorities = [0, 5, -(2**31), 5, 2**31 - 1, 0, -1]
    tasks = [await api.submit(priority=priority) for priority in priorities]

    claimed = await api.claim(count=100)

    wanted = sorted(tasks, key=lambda task: (-task["priority"], task["submit_time"], task["id"]))
    assert [task["id"] for task in claimed] == [task["id"] for task in wanted]


async def test_one_by_one_is_the_same_order(api: Api) -> None:
    tasks = [await api.submit(priority=priority) for priority in (1, 3, 2, 3)]

    claimed = [(await api.claim())[0]["id"] for _ in tasks]

    assert claimed == [tasks[place]["id"] for place in (1, 3, 2, 0)]


async def test_several_queues_give_the_best_of_all_in_order(api: Api) -> None:
    queues = [f"{api.queue}-{letter}" for letter in "abc"]
    tasks = [
        await api.submit(queue=queues[place % 3], priority=priority)
        for place, priority in enumerate((0, 0, 9, 1, 9, 0, 0, 2, 1, 0))
    ]
    wanted = [
        task["id"] for task in sorted(tasks, key=lambda task: (-task["priority"], task["submit_time"], task["id"]))
    ]

    first = await api.claim(queues=queues, count=6)
    second = await api.claim(queues=[*queues, "unknown", queues[0]], count=100)

    assert [task["id"] for task in first + second] == wanted
    assert {task["queue"] for task in first} == set(queues)


async def test_several_queues_share_one_state(api: Api) -> None:
    other = f"{api.queue}-other"
    await api.submit(current_state="a")
    await api.submit(queue=other, current_state="b")

    assert [task["queue"] for task in await api.claim(queues=[api.queue, other], current_state="b", count=9)] == [other]


async def test_only_count_tasks_are_claimed(api: Api) -> None:
    for _ in range(5):
        await api.submit()

    assert len(await api.claim(count=3)) == 3
    assert (await api.counts()) == {"submitted": 2, "submitted-working": 3}


async def test_a_worker_id_may_be_empty(api: Api) -> None:
    await api.submit()

    assert (await api.claim(worker_id=""))[0]["held_by"] == ""


async def test_each_hand_out_has_the_next_number(api: Api) -> None:
    await api.submit()

    for delivery in (1, 2, 3):
        [held] = await api.claim()
        assert held["delivery"] == delivery
        await api.release(held["id"], delivery=delivery)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"queue": "a", "queues": ["b"]}, "queues"),
        ({"queues": []}, "queues"),
        ({"queues": ["a", ""]}, "queues[1]"),
        ({"queues": ["a", "b\n"]}, "queues"),
        ({"queues": ["q" * 256]}, "queues[0]"),
        ({"queues": "a"}, "queues"),
        ({"queues": [f"q{number}" for number in range(1001)]}, "queues"),
        ({"queues": ["the same"] * 1001}, "queues"),
        ({"queues": [None]}, "queues[0]"),
        ({"queue": 5}, "queue"),
        ({"count": 0}, "count"),
        ({"count": -1}, "count"),
        ({"count": 1001}, "count"),
        ({"count": 2**63}, "count"),
        ({"count": 1.5}, "count"),
        ({"count": None}, "count"),
        ({"count": True}, "count"),
        ({"override_timeout": -1}, "override_timeout"),
        ({"override_timeout": 315360001}, "override_timeout"),
        ({"override_timeout": 1e18}, "override_timeout"),
        ({"override_timeout": 0.1234567}, "override_timeout"),
        ({"override_timeout": "1"}, "override_timeout"),
        ({"override_current_state": "s" * 241}, "override_current_state"),
        ({"override_auto_target_state": ""}, "override_auto_target_state"),
        ({"override_auto_target_state": "a\u0000"}, "override_auto_target_state"),
        ({"current_state": "s" * 256}, "current_state"),
        ({"current_state": "a\x7f"}, "current_state"),
        ({"worker_id": "w" * 256}, "worker_id"),
        ({"worker_id": "w\x85"}, "worker_id"),
        ({"worker_id": None}, "worker_id"),
    ],
)
async def test_a_bad_claim_is_refused_and_claims_nothing(api: Api, fields: dict[str, Any], field: str) -> None:
    task = await api.submit()

    refusal = await api.post("/v1/tasks/next", **({} if "queues" in fields else {"queue": api.queue}) | fields)

    await api.refuses_to_change(task, refusal, 400, "invalid", field)


async def test_states_as_long_as_any_can_be_claimed(api: Api) -> None:
    task = await api.submit(current_state="s" * 240, timeout=0)
    [held] = await api.claim(current_state="s" * 240)
    assert held["current_state"] == "s" * 240 + "-working"

    await api.release(task["id"], delivery=1, current_state="s" * 240 + "-working")

    assert await api.claim(current_state="s" * 255) == []
    assert len(await api.claim(current_state="s" * 240)) == 1


@pytest.mark.parametrize("queues", [1, 3])
async def test_as_many_claimers_as_tasks_get_one_each(api: Api, queues: int) -> None:
    names = [f"{api.queue}-{number}" for number in range(queues)]
    for _ in range(40):
        tasks = {(await api.submit(queue=names[number % queues]))["id"] for number in range(3)}

        claims = await asyncio.gather(*(api.claim(queues=names) for _ in range(3)))

        assert [len(claimed) for claimed in claims] == [1, 1, 1]
        assert {claimed[0]["id"] for claimed in claims} == tasks


async def test_claims_of_many_over_several_queues_share_all_tasks(api: Api) -> None:
    names = [f"{api.queue}-{number}" for number in range(4)]
    tasks = {(await api.submit(queue=names[number % 4], priority=number % 3))["id"] for number in range(60)}

    claims = await asyncio.gather(*(api.claim(queues=names, count=7) for _ in range(12)))

    claimed = [task["id"] for batch in claims for task in batch]
    assert len(claimed) == 60
    assert set(claimed) == tasks
    for batch in claims:
        assert batch == sorted(batch, key=lambda task: (-task["priority"], task["submit_time"], task["id"]))


async def test_a_claim_of_an_unknown_queue_makes_none(api: Api) -> None:
    name = f"unknown-{uuid4()}"

    assert await api.claim(queue=name) == []

    assert name not in (await api.client.get("/v1/queues")).json()["queues"]


async def test_a_claim_needs_a_body(api: Api) -> None:
    refused(await api.send("POST", "/v1/tasks/next", b""), 400, "malformed_body")
