"""Connections that die before, during and right after every statement of every write.

Each write is done once undisturbed and once with a death at each place; both must leave the same behind and be
answered the same.
"""

from typing import Any

import pytest

from corndog.store.engine import Database
from tests.faults import Death, DyingDatabase, tables_of
from tests.store.house import House
from tests.store.writes import WRITES, trial

NEVER = 10**6


@pytest.mark.parametrize("name", WRITES)
async def test_nothing_is_doubled_or_lost(
    database: Database, empty_database_url: str, name: str, subtests: pytest.Subtests
) -> None:
    async def dying(death: Death, at: int) -> tuple[DyingDatabase, Any, list[str]]:
        store = DyingDatabase(empty_database_url, death, at, isolation=database.isolation, pool_size=1)
        try:
            return store, *await trial(name, House(database), House(store), f"{name} {death.name} {at}")
        finally:
            await store.close()

    undisturbed, expected, left = await dying(Death.BEFORE, NEVER)
    assert left
    for at, statement in enumerate(undisturbed.log):
        for death in Death:
            if death is Death.DURING and not tables_of(statement):
                continue  # it has nothing to wait for
            with subtests.test(statement=statement[:40], at=at, death=death):
                store, told, left_now = await dying(death, at)
                assert store.has_died
                assert len(store.log) > len(undisturbed.log)
                assert left_now == left
                if name in {"sweep", "sweep a parent", "unpark"} and death is Death.AFTER:
                    assert told <= expected  # how many the lost answer told of is not known
                else:
                    assert told == expected
