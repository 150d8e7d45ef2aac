"""Scenario S10: one key, many at once, and sessions of the database that are cut meanwhile."""

import asyncio
import random
from uuid import uuid4

import asyncpg
import httpx
import pytest

from tests.api.calls import Api, done
from tests.faults import plain_url

TIMES = 50
CUTS = 12
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'corndog' AND pid = ANY($1)
"""
BUSY = """
    SELECT array_agg(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'corndog'
        AND (query LIKE '%idempotency_keys%' OR query LIKE '%home_target%')
"""
"""Of a long statement, such as a submit, the first kilobyte is shown."""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("number", [None, 3], ids=["single", "batch"])
async def test_one_key_makes_one_task_whatever_is_cut(
    client: httpx.AsyncClient, database_url: str, queue: str, seed: int, number: int | None
) -> None:
    """Or the tasks of one batch."""
    api = Api(client, queue)
    key = uuid4().hex
    chance = random.Random(seed)

    async def submit(_number: int) -> httpx.Response:
        if number is None:
            return await api.try_submit(idempotency_key=key, payload={"seed": seed})
        tasks = [{"queue": queue, "payload": {"seed": seed}}] * number
        return await api.post("/v1/tasks/batch", idempotency_key=key, tasks=tasks)

    async def cut() -> int:
        """Cut sessions that have to do with keys, some of them waiting for the first one's commit."""
        connection = await asyncpg.connect(plain_url(database_url))
        first = connection.transaction()
        await first.start()
        # Until this ends, all wait: whoever is cut first is cut under way.
        await connection.execute("INSERT INTO idempotency_keys VALUES ($1, '', NULL, '{}', NULL, now(), false)", key)
        taken.set()
        done_cuts = 0
        is_free = False
        try:
            while done_cuts < CUTS and not submits.done():
                if busy := await connection.fetchval(BUSY):
                    done_cuts += len(await connection.fetch(CUT, chance.sample(busy, 1)))
                    if done_cuts and not is_free:
                        await first.rollback()
                        is_free = True
                elif not done_cuts:
                    await connection.execute("SELECT pg_stat_clear_snapshot()")
        finally:
            await connection.close()
        return done_cuts

    async def all_of_them() -> list[httpx.Response]:
        await taken.wait()
        return await asyncio.gather(*map(submit, range(TIMES)))

    taken = asyncio.Event()
    submits = asyncio.create_task(all_of_them())
    cuts, answers = await asyncio.gather(cut(), submits)

    assert cuts
    success = 201 if number is None else 200
    assert {answer.status_code for answer in answers} <= {success, 503}
    made = [done(answer, success) for answer in answers if answer.status_code == success]
    if not made:
        made = [done(await submit(TIMES), success)]
    tasks = await api.list()
    ids = [task["id"] for task in tasks]
    assert len(ids) == (number or 1)
    assert all([each["id"] for each in answer.get("results", [answer])] == ids for answer in made)
    assert sum(not answer["replayed"] for answer in made) <= 1
    assert [await api.get(task_id) for task_id in ids] == tasks
    assert [task["id"] for task in await api.claim(count=9)] == ids
