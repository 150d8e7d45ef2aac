"""Group commit: what comes together is written together, and each gets its own answer."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import pytest

from corndog.domain.errors import Unavailable
from corndog.observability import metrics
from corndog.service import groups
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


def sized(database: Database) -> Group[Item, str | None]:
    """Make groups in which an item has as many bytes as its text."""
    return Group("test", database.write, slots=1, size=10, bytes_of=lambda item: len(item.text))


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


async def test_an_item_counts_for_as_many_as_it_has(database: Database) -> None:
    write = Group("test", database.write, slots=1, size=10, number_of=lambda item: len(item.text))
    numbers = [
        Item(UUID(int=number), "x" * size) for number, size in ((1, 1), (2, 6), (3, 4), (4, 1), (5, 30), (6, 10))
    ]

    asked = await ask(write, *numbers)
    database.gate.set()

    await asyncio.gather(*asked)
    assert database.groups == [[1], [2, 3], [4], [5], [6]]


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


# Back-pressure and bounds -----------------------------------------------------


def full(write: Group[Item, str | None], item: Item) -> bool:
    """Tell whether an item is refused at once, before anything was done for it."""
    future = write(item)
    if not future.done():
        future.cancel()
        return False
    error = future.exception()
    assert isinstance(error, Unavailable)
    assert error.retry_after >= 1
    return True


async def test_beyond_a_number_of_waiting_items_others_are_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "WAITING_MAX", 3)
    write = group(database)
    asked = await ask(write, *numbered(9, 1, 2, 3))

    assert full(write, Item(UUID(int=4)))
    assert full(write, Item(UUID(int=5)))
    database.gate.set()
    assert await asyncio.gather(*asked) == ["wrote "] * 4

    assert await write(Item(UUID(int=4))) == "wrote "
    assert database.groups == [[9], [1, 2, 3], [4]]


async def test_beyond_a_number_of_waiting_bytes_others_are_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "WAITING_BYTES_MAX", 10)
    write = sized(database)
    asked = await ask(write, Item(UUID(int=9)), Item(UUID(int=1), "x" * 6), Item(UUID(int=2), "x" * 4))

    assert full(write, Item(UUID(int=3), "x"))
    assert not full(write, Item(UUID(int=4)))
    database.gate.set()
    await asyncio.gather(*asked)

    # One that is larger than all that may wait is taken where nothing waits.
    large = "x" * 20
    assert await write(Item(UUID(int=5), large)) == f"wrote {large}"
    assert not full(write, Item(UUID(int=6), "x" * 10))


async def test_those_who_leave_make_room(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "WAITING_BYTES_MAX", 10)
    write = sized(database)
    asked = await ask(write, Item(UUID(int=9)), Item(UUID(int=1), "x" * 10))
    asked[1].cancel()
    database.gate.set()
    await asked[0]
    for _ in range(3):
        await asyncio.sleep(0)
    assert database.groups == [[9]]
    database.gate.clear()

    held_up = await ask(write, Item(UUID(int=8)), Item(UUID(int=2), "x" * 10))
    assert full(write, Item(UUID(int=3), "x"))
    database.gate.set()
    await asyncio.gather(*held_up)
    assert database.groups == [[9], [8], [2]]


async def test_a_group_is_bounded_in_bytes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "BYTES_MAX", 10)
    sizes = {1: 5, 2: 5, 3: 1, 4: 30, 5: 10, 6: 0}
    asked = await ask(
        sized(database), Item(UUID(int=9)), *(Item(UUID(int=number), "x" * size) for number, size in sizes.items())
    )
    database.gate.set()
    await asyncio.gather(*asked)

    assert database.groups == [[9], [1, 2], [3], [4], [5, 6]]


async def test_a_group_has_only_what_is_alike(database: Database) -> None:
    write: Group[Item, str | None] = Group("test", database.write, slots=1, alike=lambda item: item.text)
    items = [Item(UUID(int=number), text) for number, text in enumerate("abacb", 1)]
    asked = await ask(write, *numbered(9), *items)
    database.gate.set()

    assert await asyncio.gather(*asked) == ["wrote ", *(f"wrote {text}" for text in "abacb")]
    assert database.groups == [[9], [1, 3], [2, 5], [4]]


# Those who leave --------------------------------------------------------------


async def test_what_was_written_for_one_who_left_is_taken_back(database: Database) -> None:
    taken: list[str | None] = []

    async def take_back(answers: Sequence[str | None]) -> None:
        taken.extend(answers)

    write = Group("test", database.write, slots=1, take_back=take_back)
    items = [Item(UUID(int=number), str(number)) for number in range(5)]
    asked = await ask(write, *items)
    asked[0].cancel()  # under way
    asked[3].cancel()  # not yet
    await asyncio.sleep(0)
    database.gate.set()
    rest = await asyncio.gather(*asked[1:3], *asked[4:])

    assert rest == ["wrote 1", "wrote 2", "wrote 4"]
    assert (taken, database.groups) == (["wrote 0"], [[0], [1, 2, 4]])


async def test_a_fault_of_taking_back_stops_no_later_group(database: Database) -> None:
    async def take_back(_: Sequence[str | None]) -> None:
        raise Unavailable("away")

    write = Group("test", database.write, slots=1, take_back=take_back)
    asked = await ask(write, *numbered(1, 2))
    asked[0].cancel()
    await asyncio.sleep(0)
    database.gate.set()

    assert await asked[1] == "wrote "
    assert await write(Item(UUID(int=3), "x")) == "wrote x"


async def test_nobody_is_answered_twice_when_a_group_fails_for_one(database: Database) -> None:
    asked = await ask(group(database), *numbered(9), Item(UUID(int=1), "bad"), *numbered(2, 3))
    asked[1].cancel()
    asked[2].cancel()
    await asyncio.sleep(0)
    database.gate.set()

    assert await asyncio.gather(*asked[::3]) == ["wrote ", "wrote "]


async def test_a_group_is_written_one_by_one_only_if_an_item_may_be_at_fault(database: Database) -> None:
    asked = await ask(group(database), *numbered(9), *numbered(1, 2), Item(UUID(int=3), "bad"))
    database.gate.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)

    assert [type(answer) for answer in answers] == [str, str, str, ValueError]
    assert database.groups == [[9], [1, 2, 3], [1], [2], [3]]


async def test_the_sizes_of_groups_are_measured(database: Database) -> None:
    def measured() -> dict[str, float]:
        samples = next(iter(metrics.GROUP_SIZES.collect())).samples
        return {
            sample.name + sample.labels.get("le", ""): sample.value
            for sample in samples
            if sample.labels["of"] == "measured"
        }

    write = Group("measured", database.write, slots=1)
    asked = await ask(write, *numbered(1, 2, 3, 4))
    database.gate.set()
    await asyncio.gather(*asked)

    found = measured()
    assert (found["corndog_group_size_count"], found["corndog_group_size_sum"]) == (2, 4)
    assert (found["corndog_group_size_bucket1.0"], found["corndog_group_size_bucket4.0"]) == (1, 2)
