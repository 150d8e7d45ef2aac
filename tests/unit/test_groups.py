"""Group commit: what comes together is written together, and each gets its own answer."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import pytest

from corndog.domain.errors import Unavailable
from corndog.service.groups import Group


class Item(NamedTuple):
    id: UUID
    text: str = ""


class Database:
    """Writes when it is let, and remembers the groups."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = asyncio.Event()

    async def write(self, items: Sequence[Item]) -> list[str | None]:
        self.groups.append([item.id.int for item in items])
        await self.gate.wait()
        for item in items:
            if item.text == "bad":
                raise ValueError("bad")
            if item.text == "away":
                raise Unavailable("away")
        return [None if item.text == "stale" else f"wrote {item.text}" for item in items]


@pytest.fixture
async def database() -> Database:
    return Database()


def group(database: Database, *, slots: int = 1, size: int = 10) -> Group[Item, str | None]:
    return Group("test", database.write, slots=slots, size=size, key_of=lambda item: item.id)


async def ask(write: Group[Item, str | None], *items: Item) -> list["asyncio.Task[str | None]"]:
    async def one(item: Item) -> str | None:
        return await write(item)

    # The first is under way when the others come.
    tasks = [asyncio.create_task(one(items[0]))]
    for _ in range(3):
        await asyncio.sleep(0)
    tasks += [asyncio.create_task(one(item)) for item in items[1:]]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def numbered(*numbers: int, text: str = "") -> list[Item]:
    return [Item(UUID(int=number), text) for number in numbers]


async def test_a_free_slot_takes_what_is_there_and_the_rest_goes_together(database: Database) -> None:
    asked = await ask(group(database), *numbered(3, 2, 1))

    database.gate.set()

    assert await asyncio.gather(*asked) == ["wrote "] * 3
    assert database.groups == [[3], [2, 1]]


async def test_groups_are_bounded_and_slots_run_side_by_side(database: Database) -> None:
    asked = await ask(group(database, slots=2, size=2), *numbered(1, 2, 3, 4, 5, 6, 7))
    assert database.groups == [[1], [2, 3]]

    database.gate.set()
    await asyncio.gather(*asked)

    assert sorted(map(len, database.groups)) == [1, 2, 2, 2]


async def test_no_id_is_twice_in_a_group_and_all_keep_their_order(database: Database) -> None:
    first, second, third = (Item(UUID(int=1), text) for text in ("first", "second", "third"))
    asked = await ask(group(database), *numbered(9), first, second, *numbered(2), third)

    database.gate.set()

    assert await asyncio.gather(*asked) == ["wrote ", "wrote first", "wrote second", "wrote ", "wrote third"]
    assert database.groups == [[9], [1, 2], [1], [1]]


async def test_what_was_not_written_has_no_answer(database: Database) -> None:
    database.gate.set()
    asked = await ask(group(database), *numbered(9), Item(UUID(int=1), "stale"), *numbered(2))

    assert await asyncio.gather(*asked) == ["wrote ", None, "wrote "]


async def test_a_bad_item_fails_alone(database: Database) -> None:
    asked = await ask(group(database), *numbered(9), Item(UUID(int=1), "bad"), *numbered(2, 3))
    database.gate.set()

    answers = await asyncio.gather(*asked, return_exceptions=True)

    assert isinstance(answers[1], ValueError)
    assert [answer for answer in answers if isinstance(answer, str)] == ["wrote "] * 3


async def test_without_a_database_all_are_refused_at_once(database: Database) -> None:
    asked = await ask(group(database), *numbered(9), Item(UUID(int=1), "away"), *numbered(2))
    database.gate.set()

    answers = await asyncio.gather(*asked, return_exceptions=True)

    assert [type(answer) for answer in answers] == [str, Unavailable, Unavailable]
    assert database.groups == [[9], [1, 2]]


async def test_a_request_that_is_gone_leaves_its_group(database: Database) -> None:
    asked = await ask(group(database), *numbered(9, 1, 2))
    asked[1].cancel()
    await asyncio.sleep(0)
    database.gate.set()

    assert await asyncio.gather(*asked[::2]) == ["wrote ", "wrote "]
    assert database.groups == [[9], [2]]


async def test_a_request_that_goes_while_its_group_is_written_harms_nobody(database: Database) -> None:
    asked = await ask(group(database), *numbered(9, 1, 2))
    asked[0].cancel()
    await asyncio.sleep(0)
    database.gate.set()

    assert await asyncio.gather(*asked[1:]) == ["wrote ", "wrote "]
