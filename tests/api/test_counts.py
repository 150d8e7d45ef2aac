"""Counts while others write: trial S39, with fewer tasks than the benchmark has."""

import asyncio

from tests.api.calls import Api, done

TASKS = 10_000
BATCH = 1000


async def submit_all(api: Api) -> None:
    batch = [{"queue": api.queue, "kind": f"k{number}"} for number in range(BATCH)]
    for _ in range(TASKS // BATCH):
        assert done(await api.post("/v1/tasks/batch", tasks=batch))["failed"] == 0


async def test_counts_are_exact_at_any_time(api: Api) -> None:
    """S39: a claim takes a task from one state to another, and no read ever sees it in both or in neither."""
    await submit_all(api)
    assert await api.counts() == {"submitted": TASKS}
    has_claimed = asyncio.Event()
    seen: list[int] = []

    async def read() -> None:
        while not has_claimed.is_set():
            counts = await api.counts()
            assert sum(counts.values()) == TASKS
            seen.append(counts["submitted"])

    reading = asyncio.create_task(read())
    try:
        for _ in range(15):
            claimed = await asyncio.gather(*(api.claim(count=10) for _ in range(10)))
            assert all(len(tasks) == 10 for tasks in claimed)
    finally:
        has_claimed.set()
        await reading
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) > 1
    assert await api.counts() == {"submitted": TASKS - 1500, "submitted-working": 1500}
    by_state = done(await api.client.get("/v1/queues/state-counts"))["queue_and_state_counts"]
    assert by_state[api.queue]["count"] == TASKS
