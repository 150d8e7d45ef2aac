"""Reading: one task, listings with their cursors, counts, health."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from hashlib import blake2b
from uuid import UUID

import msgspec
import pytest

from tests.api.calls import Api, Fields, done, refused

# One task ---------------------------------------------------------------------


@pytest.mark.parametrize("archived", [False, True])
async def test_contents_come_only_where_they_are_asked_for(api: Api, *, archived: bool) -> None:
    held = await api.submit_held(payload=1)
    if archived:
        await api.complete(held["id"], delivery=1, result=2)
    contents = {"payload", "content_type", "result", "result_content_type"}

    shown = {
        include: contents & (await api.get(held["id"], include=include)).keys()
        for include in ("payload", "result", "payload,result", "result,payload")
    }

    payload, result = {"payload", "content_type"}, {"result", "result_content_type"} if archived else set()
    assert shown == {
        "payload": payload,
        "result": result,
        "payload,result": payload | result,
        "result,payload": payload | result,
    }
    assert not contents & (await api.get(held["id"])).keys()


# Listings ---------------------------------------------------------------------


async def test_filters(api: Api) -> None:
    first = await api.submit(kind="a", current_state="x")
    second = await api.submit(kind="b", current_state="x")
    third = await api.submit(kind="a", current_state="y", delay=3600)
    [held] = await api.claim(current_state="x", worker_id="w")
    assert held["id"] == first["id"]

    async def ids(**query: str) -> list[str]:
        return [task["id"] for task in await api.list(**query)]

    everything = [first["id"], second["id"], third["id"]]
    assert await ids() == everything
    assert await ids(kind="a") == [first["id"], third["id"]]
    assert await ids(current_state="x") == [second["id"]]
    assert await ids(current_state="x-working") == [first["id"]]
    assert await ids(current_state="y-scheduled") == [third["id"]]
    assert await ids(phase="held") == await ids(worker_id="w") == [first["id"]]
    assert await ids(phase="parked", kind="a") == [third["id"]]
    assert await ids(phase="parked", kind="b") == []
    assert await ids(submitted_after=second["submit_time"]) == everything[1:]
    assert await ids(submitted_before=second["submit_time"]) == everything[:1]
    assert await ids(submitted_after=second["submit_time"], submitted_before=third["submit_time"]) == [second["id"]]
    assert await ids(submitted_after="9999-12-31T23:59:59Z") == []
    assert await ids(submitted_before="0001-01-01T00:00:00Z") == []
    assert await ids(phase="completed") == []
    assert await ids(job_id=first["id"]) == []


async def test_ended_tasks_are_listed_apart(api: Api) -> None:
    live, completed, canceled = [await api.submit() for _ in range(3)]
    await api.complete(completed["id"], current_state="submitted")
    await api.cancel(canceled["id"])

    assert [task["id"] for task in await api.list(archived="false")] == [live["id"]]
    archived = await api.list(archived="true")
    assert [(task["id"], task["phase"]) for task in archived] == [
        (completed["id"], "completed"),
        (canceled["id"], "canceled"),
    ]
    assert [task["id"] for task in await api.list(archived="true", phase="canceled")] == [canceled["id"]]
    assert [task["id"] for task in await api.list(archived="true", current_state="completed")] == [completed["id"]]


async def test_a_listing_includes_contents_where_asked(api: Api) -> None:
    held = await api.submit_held(payload={"p": 1})
    await api.complete(held["id"], delivery=1, result={"r": 1})
    await api.submit(payload={"p": 2})

    [live] = await api.list(include="payload,result")
    [ended] = await api.list(include="payload,result", archived="true")

    assert (live["payload"], ended["payload"], ended["result"]) == ({"p": 2}, {"p": 1}, {"r": 1})
    assert "result" not in live


async def _pages(api: Api, limit: int, **query: str) -> list[list[Fields]]:
    pages: list[list[Fields]] = []
    cursor: dict[str, str] = {}
    while True:
        page = done(await api.client.get("/v1/tasks", params={"limit": str(limit)} | query | cursor))
        pages.append(page["tasks"])
        if page["next_cursor"] is None:
            return pages
        cursor = {"cursor": page["next_cursor"]}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 1000])
async def test_pages_give_each_task_once_in_order(api: Api, limit: int) -> None:
    for number in range(7):
        await api.submit(current_state=f"s{number % 3}", priority=-number)
    everything = await api.list()
    assert everything == sorted(everything, key=lambda task: (task["submit_time"], task["id"]))

    pages = await _pages(api, limit, queue=api.queue)

    assert [task for page in pages for task in page] == everything
    assert all(len(page) == limit for page in pages[:-1])
    assert 0 < len(pages[-1]) <= limit


async def test_pages_over_all_queues(api: Api) -> None:
    kind = api.queue
    ids = [(await api.submit(queue=f"{api.queue}-{number % 3}", kind=kind))["id"] for number in range(7)]

    assert [task["id"] for page in await _pages(api, 2, kind=kind) for task in page] == ids


async def test_pages_of_tasks_submitted_within_one_statement(api: Api) -> None:
    held = await api.submit_held(current_state="s")
    ids = (await api.complete(held["id"], delivery=1, next_tasks=[{"queue": api.queue}] * 10))["next_tasks"]

    assert [task["id"] for page in await _pages(api, 3, queue=api.queue) for task in page] == ids


async def test_a_page_is_not_moved_by_tasks_that_come_or_go(api: Api) -> None:
    ids = [(await api.submit())["id"] for _ in range(6)]
    first = done(await api.client.get("/v1/tasks", params={"queue": api.queue, "limit": 2}))

    await api.cancel(ids[1])
    await api.cancel(ids[3])
    late = (await api.submit())["id"]

    rest = await api.list(cursor=first["next_cursor"])
    assert [task["id"] for task in rest] == [ids[2], ids[4], ids[5], late]


async def test_a_cursor_goes_with_another_limit_and_other_contents(api: Api) -> None:
    tasks = [await api.submit(payload=number) for number in range(3)]
    page = done(await api.client.get("/v1/tasks", params={"queue": api.queue, "limit": 1}))

    rest = await api.list(limit=50, include="payload", cursor=page["next_cursor"])

    assert [(task["id"], task["payload"]) for task in rest] == [(tasks[1]["id"], 1), (tasks[2]["id"], 2)]


async def test_a_cursor_from_another_listing_is_refused(api: Api) -> None:
    for _ in range(3):
        await api.submit()
    page = done(await api.client.get("/v1/tasks", params={"queue": api.queue, "limit": 1}))
    cursor = page["next_cursor"]

    for query in (
        {},
        {"queue": f"{api.queue}x"},
        {"queue": api.queue, "current_state": "submitted"},
        {"queue": api.queue, "phase": "ready"},
        {"queue": api.queue, "kind": "k"},
        {"queue": api.queue, "worker_id": ""},
        {"queue": api.queue, "archived": "true"},
        {"queue": api.queue, "job_id": page["tasks"][0]["id"]},
        {"queue": api.queue, "submitted_after": "2000-01-01T00:00:00Z"},
        {"queue": api.queue, "submitted_before": "3000-01-01T00:00:00Z"},
    ):
        refusal = await api.client.get("/v1/tasks", params=query | {"cursor": cursor})
        refused(refusal, 400, "invalid_cursor", "cursor")


async def test_a_cursor_that_was_tampered_with_is_refused(api: Api) -> None:
    for _ in range(2):
        await api.submit()
    cursor: str = done(await api.client.get("/v1/tasks", params={"queue": api.queue, "limit": 1}))["next_cursor"]
    garbage = ["", "x", "====", "null", "é", "%00", "a b", "A" * 200, f" {cursor}", f"{cursor}\n", cursor.swapcase()]
    truncated = [cursor[:end] for end in range(1, len(cursor))]
    flipped = [
        f"{cursor[:place]}{'A' if cursor[place] != 'A' else 'B'}{cursor[place + 1 :]}" for place in range(0, 60, 7)
    ]

    for bad in [*garbage, *truncated, *flipped, cursor + cursor, f"{cursor}AAAA"]:
        refusal = await api.client.get("/v1/tasks", params={"queue": api.queue, "cursor": bad})
        refused(refusal, 400, "invalid_cursor" if len(bad) <= 200 else "invalid", "cursor")


PLACES: dict[str, object] = {
    "no array": {},
    "null": None,
    "another type": [1, 2],
    "nulls": [None, None],
    "no id": ["2020-01-01T00:00:00Z", "x"],
    "before the year 1": ["0001-01-01T00:00:00+23:59", str(UUID(int=1))],
    "after the year 9999": ["9999-12-31T23:59:59-23:59", str(UUID(int=1))],
    "a time without offset": ["0001-01-01T00:00:00", str(UUID(int=1))],
}


@pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))
async def test_a_cursor_signed_anew_for_a_place_that_is_none_is_refused(api: Api, place: object) -> None:
    # The digest is no secret: its key is the filter, which the one who asks knows.
    for _ in range(2):
        await api.submit()
    cursor: str = done(await api.client.get("/v1/tasks", params={"queue": api.queue, "limit": 1}))["next_cursor"]
    given = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    filters = {
        "archived": False,
        "queue": api.queue,
        "current_state": None,
        "phase": None,
        "kind": None,
        "worker_id": None,
        "job_id": None,
        "submitted_after": datetime(1, 1, 1, tzinfo=UTC),
        "submitted_before": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    }

    def sign(packed: bytes) -> str:
        digest = blake2b(packed + msgspec.msgpack.encode(filters), digest_size=8).digest()
        return urlsafe_b64encode(digest + packed).decode().rstrip("=")

    assert sign(given[8:]) == cursor
    refusal = await api.client.get(
        "/v1/tasks", params={"queue": api.queue, "cursor": sign(msgspec.msgpack.encode(place))}
    )
    refused(refusal, 400, "invalid_cursor", "cursor")


# Counts -----------------------------------------------------------------------


async def test_counts(api: Api) -> None:
    other = f"{api.queue}-other"
    for _ in range(3):
        await api.submit()
    await api.submit(delay=3600)
    await api.submit(queue=other, current_state="x")
    ended = await api.submit_held(current_state="y")
    await api.complete(ended["id"], delivery=1)
    await api.claim()

    states = {"submitted": 2, "submitted-scheduled": 1, "submitted-working": 1}
    one = done(await api.client.get("/v1/state-counts", params={"queue": api.queue}))
    assert one == {"queue": api.queue, "count": 4, "state_counts": states}
    by_state = done(await api.client.get("/v1/queues/state-counts"))["queue_and_state_counts"]
    assert by_state[api.queue] == one
    assert by_state[other] == {"queue": other, "count": 1, "state_counts": {"x": 1}}
    by_queue = done(await api.client.get("/v1/queues/task-counts"))
    assert (by_queue["queue_counts"][api.queue], by_queue["queue_counts"][other]) == (4, 1)
    assert by_queue["total_task_count"] == sum(by_queue["queue_counts"].values())
    queues = done(await api.client.get("/v1/queues"))
    assert {api.queue, other} <= set(queues["queues"])
    assert queues["queues"] == sorted(set(queues["queues"]))
    assert queues["total_task_count"] == by_queue["total_task_count"]


async def test_an_unknown_queue_has_zero_tasks_and_zeros_are_not_listed(api: Api) -> None:
    nothing = {"queue": api.queue, "count": 0, "state_counts": {}}
    assert done(await api.client.get("/v1/state-counts", params={"queue": api.queue})) == nothing

    task = await api.submit()
    await api.cancel(task["id"])

    assert done(await api.client.get("/v1/state-counts", params={"queue": api.queue})) == nothing
    for path, name in (
        ("/v1/queues", "queues"),
        ("/v1/queues/task-counts", "queue_counts"),
        ("/v1/queues/state-counts", "queue_and_state_counts"),
    ):
        assert api.queue not in done(await api.client.get(path))[name]


# Health -----------------------------------------------------------------------


async def test_health(api: Api, redis_url: str) -> None:
    assert done(await api.client.get("/healthz")) == {"status": "ok"}
    ready = done(await api.client.get("/readyz"))
    assert ready["status"] == "ok"
    assert ready["checks"] == {"database": "ok"} | ({"redis": "ok"} if redis_url else {})
