"""The answer to any statement of a write of a job is lost: it is done once, and what is ready is made known."""

from uuid import UUID

import pytest

from corndog.domain.task import Phase
from corndog.hints.hints import Hints
from corndog.store.engine import Database
from tests.faults import Death, DyingDatabase
from tests.store.house import House, ids
from tests.store.test_job_races import ACTS, Ids, attempt, prepare, state_of


async def prepared(house: House, queue: str) -> tuple[UUID, Ids]:
    """Make a job, and have Redis know all that is ready of it: nothing."""
    made = await prepare(house, queue)
    assert await house.claim(queue, strategy="by_hints") == []
    return made


@pytest.mark.parametrize("name", ACTS)
async def test_a_lost_answer_changes_nothing(
    database: Database, empty_database_url: str, hints: Hints, name: str, subtests: pytest.Subtests
) -> None:
    house = House(database, hints=hints)
    job_id, tasks = await prepared(house, "undisturbed")
    await attempt(ACTS[name], house, job_id, tasks, "undisturbed")
    expected = await state_of(house, job_id)

    at, has_died = 0, True
    while has_died:
        queue = f"{name} {at}"
        job_id, tasks = await prepared(house, queue)
        dying = DyingDatabase(empty_database_url, Death.AFTER, at, isolation=database.isolation)
        answer = await attempt(ACTS[name], House(dying, hints=hints), job_id, tasks, queue)
        has_died = dying.has_died
        await dying.close()
        with subtests.test(at=at):
            assert not isinstance(answer, tuple), answer
            assert await state_of(house, job_id) == expected
            ready = [task.id for task in (await house.jobs.get(job_id)).tasks if task.phase is Phase.READY]
            # What a sweep does unheard of, reconciling finds.
            claimed = await house.claim(queue, strategy="scan" if name == "sweep" else "by_hints", count=100)
            assert sorted(ids(claimed)) == sorted(ready)
        at += 1
