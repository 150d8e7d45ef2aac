"""Failures: what a failed try costs, when the next comes, and what is kept of the error."""

import asyncio
from collections.abc import Iterator

import httpx
import msgspec
import pytest

from corndog.settings import Settings
from tests.api.calls import JSON, MSGPACK, Api, done, refused, seconds_between
from tests.servers import running_server

KIB = 1024


async def test_a_failure_parks_the_task_until_its_backoff_is_over(api: Api) -> None:
    held = await api.submit_held(
        current_state="fresh", auto_target_state="going", jitter="none", backoff=60, timeout=9, payload={"kept": 1}
    )

    answer = await api.fail(held["id"], delivery=1, error="broken")

    failed = answer["task"]
    assert answer["replayed"] is False
    assert {field: failed[field] for field in (
        "phase", "current_state", "auto_target_state", "home_state", "home_target", "attempt", "delivery", "held_by",
        "claim_time", "timeout", "last_error", "lost",
    )} == {
        "phase": "parked", "current_state": "fresh-retrying", "auto_target_state": "fresh", "home_state": "fresh",
        "home_target": "going", "attempt": 1, "delivery": 1, "held_by": None, "claim_time": None, "timeout": None,
        "last_error": "broken", "lost": 0,
    }  # fmt: skip
    assert seconds_between(failed["update_time"], failed["due_time"]) == 60
    assert await api.counts() == {"fresh-retrying": 1}
    assert await api.clean_up() == 0
    assert await api.claim(current_state="fresh-retrying") == []
    assert (await api.get(held["id"], include="payload"))["payload"] == {"kept": 1}
    [run] = await api.runs(held["id"])
    assert (run["delivery"], run["outcome"], run["error"]) == (1, "failed", "broken")
    assert run["claim_time"] == held["claim_time"]
    assert run["end_time"] == failed["update_time"]


async def test_a_retry_comes_back_home_without_a_clock_and_in_its_place(api: Api) -> None:
    """Home, even if the claim swapped to other states; and before what was submitted later."""
    first = await api.submit()
    await api.submit()
    [held] = await api.claim(override_current_state="x", override_auto_target_state="y", override_timeout=5)
    await api.fail(first["id"], delivery=1, retry_in=0.05)
    assert held["id"] == first["id"]

    ready = await api.until_ready(first["id"])

    assert (ready["current_state"], ready["auto_target_state"]) == ("submitted", "submitted-working")
    assert (ready["timeout"], ready["due_time"], ready["last_error"]) == (None, None, "")
    assert [task["id"] for task in await api.claim(count=1)] == [first["id"]]


async def test_the_last_attempt_ends_as_failed(api: Api) -> None:
    task = await api.submit(max_attempts=3, backoff=0)
    for delivery in (1, 2, 3):
        [held] = await api.claim(worker_id="w")
        assert (held["attempt"], held["delivery"]) == (delivery - 1, delivery)
        failed = (await api.fail(task["id"], delivery=delivery, error=f"try {delivery}"))["task"]
        assert failed["phase"] == ("failed" if delivery == 3 else "ready")

    assert (failed["current_state"], failed["auto_target_state"], failed["home_state"]) == (
        "failed",
        "failed",
        "submitted",
    )
    assert (failed["attempt"], failed["last_error"], failed["due_time"], failed["held_by"]) == (3, "try 3", None, "w")
    assert [run["error"] for run in await api.runs(task["id"])] == ["try 1", "try 2", "try 3"]
    assert await api.counts() == {}
    refused(await api.try_fail(task["id"], delivery=2), 409, "other_request")
    refused(await api.try_complete(task["id"], delivery=3), 409, "other_request")


@pytest.mark.parametrize("max_attempts", [1, None, 5])
async def test_a_failure_that_is_not_retryable_ends_the_task(api: Api, max_attempts: int | None) -> None:
    held = await api.submit_held(max_attempts=max_attempts)

    failed = (await api.fail(held["id"], delivery=1, retryable=False, error="never"))["task"]

    assert (failed["phase"], failed["attempt"], failed["last_error"]) == ("failed", 1, "never")


async def test_an_unlimited_budget_is_never_spent(api: Api) -> None:
    task = await api.submit(max_attempts=None, backoff=0)
    for delivery in range(1, 8):
        await api.claim()
        failed = (await api.fail(task["id"], delivery=delivery))["task"]
        assert (failed["phase"], failed["attempt"]) == ("ready", delivery)


async def test_the_backoff_grows_to_its_cap(api: Api) -> None:
    task = await api.submit(max_attempts=None, backoff=10, backoff_max=100, backoff_multiplier=3, jitter="none")
    pauses = []
    for delivery in range(1, 6):
        await api.claim()
        failed = (await api.fail(task["id"], delivery=delivery))["task"]
        pauses.append(seconds_between(failed["update_time"], failed["due_time"]))
        # A new state makes a parked task ready now, and uses no attempt.
        await api.update(task["id"], current_state="submitted-retrying", new_state="submitted")
    assert pauses == [10, 30, 90, 100, 100]


async def test_retry_in_replaces_the_backoff_this_once(api: Api) -> None:
    held = await api.submit_held(max_attempts=3, backoff=1000)
    failed = (await api.fail(held["id"], delivery=1, retry_in=12.345678))["task"]
    assert seconds_between(failed["update_time"], failed["due_time"]) == 12.345678

    for bad in (-1, 1e300, 0.0000001, "1"):
        assert (await api.try_fail(held["id"], delivery=1, retry_in=bad)).status_code == 400
    refusal = await api.try_fail(held["id"], delivery=1, retry_in=1, retryable=False)
    refused(refusal, 400, "invalid", "retry_in")

    last = await api.submit_held(current_state="last", max_attempts=1)
    assert (await api.fail(last["id"], delivery=1, retry_in=1))["task"]["phase"] == "failed"


async def test_a_retrying_task_is_updated_and_completed_without_a_delivery(api: Api) -> None:
    held = await api.submit_held()
    await api.fail(held["id"], delivery=1)
    await api.update(held["id"], current_state="submitted-retrying", priority=4)
    for refusal in (
        await api.try_complete(held["id"], delivery=1),
        await api.try_release(held["id"], delivery=1),
        await api.try_update(held["id"], delivery=1, priority=1),
    ):
        refused(refusal, 409, "other_request")
    refused(await api.try_fail(held["id"], delivery=2), 409, "stale_delivery")

    completed = (await api.complete(held["id"], current_state="submitted-retrying", result=1))["task"]

    assert (completed["phase"], completed["priority"], completed["attempt"]) == ("completed", 4, 1)
    assert [run["outcome"] for run in await api.runs(held["id"])] == ["failed"]


async def test_only_the_holder_fails_a_task(api: Api) -> None:
    task = await api.submit()
    for refusal in (await api.try_fail(task["id"], delivery=1), await api.try_fail(task["id"], delivery=0)):
        assert refusal.status_code in {400, 409}
    refused(await api.try_fail(task["id"]), 400, "invalid", "delivery")
    [held] = await api.claim()
    refused(await api.try_fail(held["id"], delivery=2), 409, "stale_delivery")
    refused(await api.try_fail(held["id"], delivery=1, current_state="submitted"), 409, "state_mismatch")
    refused(await api.try_fail(held["id"], delivery=1, queue="other"), 409, "queue_mismatch")
    assert (await api.get(held["id"])) == held | {"due_time": held["due_time"]}

    assert (await api.fail(held["id"], delivery=1, current_state="submitted-working", queue=api.queue))["task"]


@pytest.mark.parametrize("retryable", [True, False], ids=["retried", "ended"])
async def test_a_repeated_fail_is_answered_from_history(api: Api, retryable: bool) -> None:
    held = await api.submit_held()
    body = {"delivery": 1, "error": "e", "retryable": retryable}
    first = await api.fail(held["id"], **body)

    again = await api.fail(held["id"], **body)
    assert again == first | {"replayed": True}
    for other in ({"error": "f"}, {"retryable": not retryable}, {"current_state": "submitted-working"}):
        refused(await api.try_fail(held["id"], **body | other), 409, "other_request")

    if retryable:
        # As it is now, even in another's hands; and the repeat changes nothing about that.
        await api.update(held["id"], current_state="submitted-retrying", new_state="submitted")
        [second] = await api.claim(worker_id="b")
    else:
        await api.revive(held["id"])
        [second] = await api.claim(worker_id="b")
    again = await api.fail(held["id"], **body)
    assert (again["replayed"], again["task"]["delivery"], again["task"]["held_by"]) == (True, 2, "b")
    assert await api.get(held["id"]) == second
    assert len(await api.runs(held["id"])) == 2


async def test_an_error_beyond_64_kib_is_cut_and_marked(api: Api) -> None:
    for text in ("e" * (64 * KIB), "é" * (32 * KIB)):
        held = await api.submit_held(max_attempts=1)
        assert (await api.fail(held["id"], delivery=1, error=text))["task"]["last_error"] == text
    for text in ("e" * (64 * KIB + 1), "😀" * (16 * KIB + 1), "e" * (1024 * KIB)):
        held = await api.submit_held(max_attempts=2)
        kept = (await api.fail(held["id"], delivery=1, error=text))["task"]["last_error"]
        assert len(kept.encode()) <= 64 * KIB
        assert len(kept.encode()) > 64 * KIB - 8
        assert kept.endswith(" … (cut)")
        assert text.startswith(kept.removesuffix(" … (cut)"))
        [run] = await api.runs(held["id"])
        assert run["error"] == kept
        assert (await api.fail(held["id"], delivery=1, error=text))["replayed"] is True


@pytest.mark.parametrize(
    "body",
    [
        b'{"delivery":1,"error":"a\\u0000b"}',
        b'{"delivery":1,"error":"\\u0000"}',
        b'{"delivery":1,"error":"a\\ud800b"}',
        b'{"delivery":1,"error":"a\\udc00b"}',
        b'{"delivery":1,"error":"a\xff"}',
        b'{"delivery":1,"error":"a\xed\xa0\x80"}',
        b'{"delivery":1,"error":null}',
        b'{"delivery":1,"error":7}',
        b'{"delivery":1,"error":"a","errors":1}',
        b'{"delivery":1,"error":"a\0"}',
        b'{"delivery":1,"retryable":"false"}',
        b'{"delivery":1,"retryable":0}',
        b'{"delivery":1.5}',
    ],
)
async def test_an_error_that_no_text_is_refused_and_the_holder_can_still_finish(api: Api, body: bytes) -> None:
    """S25."""
    held = await api.submit_held()

    refusal = await api.send("POST", f"/v1/tasks/{held['id']}/fail", body)

    assert refusal.status_code == 400, refusal.text
    await api.refuses_to_change(held, refusal, 400, refusal.json()["code"], refusal.json().get("field"))
    assert (await api.fail(held["id"], delivery=1, error="plain"))["task"]["last_error"] == "plain"


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "\t\r\n", "\x01\x1f\x7f\x80\x9f", "'; DROP TABLE tasks; --", "{}", "%s %(x)s $1", "\\", '"',
        "é😀\U0010ffff", "\ufeff\u200e\u202e\ufffd\uffff", "e\u0301 \u00e9", "".join(map(chr, range(1, 256))),
    ],
)  # fmt: skip
async def test_any_other_error_comes_back_as_it_was(api: Api, text: str) -> None:
    """S25."""
    held = await api.submit_held(max_attempts=1)

    assert (await api.fail(held["id"], delivery=1, error=text))["task"]["last_error"] == text

    assert (await api.get(held["id"]))["last_error"] == text
    assert [run["error"] for run in await api.runs(held["id"])] == [text]
    packed = await api.client.get(f"/v1/tasks/{held['id']}", headers={"Accept": MSGPACK})
    assert msgspec.msgpack.decode(packed.content)["task"]["last_error"] == text


async def test_a_surrogate_pair_escape_is_one_character(api: Api) -> None:
    held = await api.submit_held()
    response = await api.send("POST", f"/v1/tasks/{held['id']}/fail", rb'{"delivery":1,"error":"\ud83d\ude00"}')
    assert done(response)["task"]["last_error"] == "😀"


async def test_a_failure_in_messagepack(api: Api) -> None:
    held = await api.submit_held(max_attempts=1)
    bad = await api.send("POST", f"/v1/tasks/{held['id']}/fail", b"\x82\xa8delivery\x01\xa5error\xa2a\xff", MSGPACK)
    assert bad.status_code == 400
    body = msgspec.msgpack.encode({"delivery": 1, "error": "e"})
    response = await api.client.post(
        f"/v1/tasks/{held['id']}/fail", content=body, headers={"Content-Type": MSGPACK, "Accept": JSON}
    )
    assert done(response)["task"]["phase"] == "failed"


async def test_a_failure_drops_the_lease(api: Api) -> None:
    """The holder that has failed hears at its next heartbeat that it holds nothing."""
    held = await api.submit_held()
    deliveries = [{"id": held["id"], "delivery": 1}]
    [beat] = done(await api.post("/v1/tasks/heartbeat", deliveries=deliveries))["deliveries"]
    assert beat["status"] == "held"
    await api.fail(held["id"], delivery=1)

    [beat] = done(await api.post("/v1/tasks/heartbeat", deliveries=deliveries))["deliveries"]

    assert beat["status"] == "lost"


async def test_a_waiting_claim_gets_a_failed_task_at_its_time(api: Api) -> None:
    held = await api.submit_held()
    failed = (await api.fail(held["id"], delivery=1, retry_in=0.5))["task"]

    async with asyncio.timeout(20):
        [again] = await api.claim(wait=20)

    assert again["claim_time"] >= failed["due_time"]
    assert seconds_between(failed["due_time"], again["claim_time"]) < 5


@pytest.fixture(scope="module")
def other_url(api_database_url: str, redis_url: str) -> Iterator[str]:
    """Run a server with another retry policy on the same database."""
    settings = Settings(
        database_url=api_database_url, redis_url=redis_url, default_max_attempts=0, default_backoff=30,
        default_backoff_max=70, default_backoff_multiplier=2, default_jitter="none", scheduler=False,
    )  # fmt: skip
    with running_server(settings) as url:
        yield url


async def test_the_policy_comes_from_the_settings_of_the_server_that_takes_the_task(
    other_url: str, api: Api, queue: str
) -> None:
    async with httpx.AsyncClient(base_url=other_url, timeout=30) as client:
        other = Api(client, queue)
        task = await other.submit()
        given = await other.submit(current_state="given", max_attempts=2, backoff=1, backoff_max=2, jitter="full")
        _, ids = await other.submit_job({"name": "a"}, defaults={"current_state": "of a job"})
    policy = ("max_attempts", "backoff", "backoff_max", "backoff_multiplier", "jitter")
    assert [task[field] for field in policy] == [None, 30, 70, 2, "none"]
    assert [given[field] for field in policy] == [2, 1, 2, 2, "full"]
    assert [(await api.get(ids["a"]))[field] for field in policy] == [None, 30, 70, 2, "none"]

    [held] = await api.claim()
    failed = (await api.fail(held["id"], delivery=1))["task"]
    assert seconds_between(failed["update_time"], failed["due_time"]) == 30
    mine = await api.submit(current_state="mine")
    assert [mine[field] for field in policy] == [3, 5, 3600, 2, "full"]
