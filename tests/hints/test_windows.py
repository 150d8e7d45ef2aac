"""What each script of the windows does, on a real Valkey."""

import itertools
from collections.abc import Sequence
from uuid import uuid4

import pytest
from redis.crc import key_slot

from corndog.domain.task import Candidate, Window
from corndog.hints.link import Link
from corndog.hints.windows import Windows
from tests.hints.places import order, place, places

A, B = Window("q", "a"), Window("q", "b")
MANY = 12_000
"""More than Lua can pass on at once."""


async def fill(windows: Windows, *ready: Candidate, of: Sequence[Window] = (A,)) -> list[Window]:
    """Refill windows from the start, when just these tasks are ready."""
    token = uuid4().hex
    begun = await windows.begin(of, token)
    found = {
        refill: sorted(hint.order for hint in ready if hint.window == refill.window)[: windows.size] for refill in begun
    }
    return await windows.finish(token, found, windows.size)


async def numbers(windows: Windows, *of: Window, count: int = 100) -> list[int]:
    """Take, and tell the numbers of the tasks."""
    return [hint.id.int for hint in (await windows.take(of or (A,), count)).candidates]


# Taking -----------------------------------------------------------------------


async def test_nothing_is_known_of_a_new_window(windows: Windows) -> None:
    await windows.offer(places(A, 1))

    assert await windows.take([A], 5) == ([], [A])
    assert await windows.peek([A]) == [None]


async def test_a_window_that_holds_all_lacks_nothing(windows: Windows) -> None:
    assert await fill(windows, *places(A, 2, 1)) == [A]

    assert await windows.take([A], 5) == (places(A, 1, 2), [])
    assert await windows.take([A], 5) == ([], [])


async def test_a_window_with_an_edge_lacks_what_is_beyond(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 2, 3, 4))

    assert await windows.take([A], 2) == (places(A, 1, 2), [])
    assert await windows.take([A], 2) == (places(A, 3), [A])
    assert await windows.take([A], 2) == ([], [A])


async def test_who_gets_enough_is_not_told_of_a_lack(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 2, 3, 4))

    assert await windows.take([A], 3) == (places(A, 1, 2, 3), [])


async def test_rank_comes_before_time_and_time_before_id(windows: Windows) -> None:
    ready = [place(A, 3, rank=-1), place(A, 1), place(A, 2)]
    await fill(windows, *ready)

    assert (await windows.take([A], 3)).candidates == ready


async def test_several_windows_are_merged(windows: Windows) -> None:
    ready = [place(A, 1, rank=1), place(B, 2, rank=0), place(A, 3, rank=2), place(B, 4, rank=1)]
    await fill(windows, *ready, of=[A, B])

    assert (await windows.take([B, A], 3)).candidates == [ready[1], ready[0], ready[3]]
    assert await windows.take([A, B], 3) == ([ready[2]], [])


async def test_no_window_is_taken_from_beyond_the_lowest_edge(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 3, 5, 6), *places(B, 2, 8), of=[A, B])

    assert await windows.take([A, B], 9) == ([*places(A, 1), *places(B, 2), *places(A, 3, 5)], [A])
    assert await windows.take([A, B], 9) == ([], [A])
    assert await windows.take([B], 9) == (places(B, 8), [])


async def test_an_unknown_window_holds_all_others_back(windows: Windows) -> None:
    await fill(windows, *places(A, 1))

    assert await windows.take([A, B], 9) == ([], [B])


# Offering ---------------------------------------------------------------------


async def test_offers_come_in_their_order(windows: Windows) -> None:
    await fill(windows)
    await windows.offer(places(A, 3, 1))
    await windows.offer([*places(A, 2), *places(B, 4)])

    assert await numbers(windows) == [1, 2, 3]


async def test_what_is_offered_twice_is_there_once(windows: Windows) -> None:
    await fill(windows, *places(A, 1))
    await windows.offer(places(A, 1, 1))

    assert await numbers(windows) == [1]


async def test_an_offer_beyond_the_edge_is_left_to_a_refill(windows: Windows) -> None:
    await fill(windows, *places(A, 2, 3, 4, 5))
    await windows.take([A], 2)
    await windows.offer(places(A, 1, 6))

    assert await windows.take([A], 9) == (places(A, 1, 4), [A])


async def test_a_window_is_cut_to_its_size(windows: Windows) -> None:
    await fill(windows, *places(A, 2, 4))
    await windows.offer(places(A, 5, 1, 3))

    assert await windows.peek([A]) == [3]
    assert await windows.take([A], 9) == (places(A, 1, 2, 3), [A])


async def test_heads_that_reach_their_limit_move_the_edge_back(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 4))
    await windows.offer(places(A, 1, 2), heads_of=2)

    assert await windows.take([A], 9) == (places(A, 1, 2), [A])


async def test_heads_that_are_all_leave_the_edge(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 4))
    await windows.offer(places(A, 2), heads_of=2)

    assert await windows.take([A], 9) == (places(A, 1, 2, 4), [])


async def test_heads_behind_the_edge_leave_it(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 2, 3, 4))
    await windows.offer([*places(A, 0, 9), *places(B, 1, 2)], heads_of=2)

    assert await windows.take([A], 9) == (places(A, 0, 1, 2), [A])
    assert await windows.take([B], 9) == ([], [B])


async def test_messages_are_published(windows: Windows, link: Link) -> None:
    async with link.client.pubsub() as pubsub:
        await pubsub.subscribe("first", "second")
        await windows.offer(places(A, 1), ["first", b"\x00\xff", "second", "2"])
        heard = [await pubsub.get_message(timeout=10) for _ in range(4)]

    said = [(message["channel"], message["data"]) for message in heard if message and message["type"] == "message"]
    assert said == [(b"first", b"\x00\xff"), (b"second", b"2")]


# Refilling ----------------------------------------------------------------------


async def test_only_one_refill_is_under_way(windows: Windows) -> None:
    [of_a] = await windows.begin([A], "one")
    begun = await windows.begin([A, B], "two")

    assert (of_a.window, of_a.after) == (A, None)
    assert [refill.window for refill in begun] == [B]
    assert await windows.finish("two", {of_a: [order(1)], begun[0]: [order(2)]}, 3) == [B]
    assert await windows.finish("one", {of_a: [order(3)]}, 3) == [A]
    assert await windows.take([A, B], 9) == ([*places(B, 2), *places(A, 3)], [])
    assert await windows.finish("one", {of_a: [order(4)]}, 3) == []


@pytest.mark.parametrize("is_overwritten", [False, True])
async def test_a_refill_that_lost_its_mark_does_not_count(windows: Windows, link: Link, is_overwritten: bool) -> None:
    begun = await windows.begin([A], "one")
    await link.client.delete(link.key("R", "q\0a"))
    if is_overwritten:
        await windows.begin([A], "two")

    assert await windows.finish("one", {begun[0]: [order(1)]}, 3) == []
    assert await windows.take([A], 1) == ([], [A])


async def test_a_forgotten_window_is_not_refilled_by_what_was_read_before(windows: Windows) -> None:
    await fill(windows, *places(A, 1))
    begun = await windows.begin([A], "one")
    await windows.forget([A, B])

    assert await windows.peek([A]) == [None]
    assert await windows.finish("one", {begun[0]: [order(1)]}, 3) == []
    assert await fill(windows, *places(A, 2)) == [A]
    assert await numbers(windows) == [2]


async def test_what_is_offered_during_a_refill_is_kept(windows: Windows) -> None:
    begun = await windows.begin([A], "one")
    await windows.offer(places(A, 3, 1))

    assert await windows.finish("one", {begun[0]: [order(2)]}, 3) == [A]
    assert await windows.take([A], 9) == (places(A, 1, 2, 3), [])


async def test_what_is_offered_during_a_refill_may_be_too_much(windows: Windows) -> None:
    begun = await windows.begin([A], "one")
    for number in (9, 7, 5, 3, 1):
        await windows.offer(places(A, number))

    assert await windows.finish("one", {begun[0]: []}, 3) == [A]
    assert await windows.take([A], 9) == (places(A, 1, 3, 5), [A])


async def test_what_is_offered_beyond_the_last_that_was_read_is_left_to_the_next_refill(windows: Windows) -> None:
    [refill] = await windows.begin([A], "one")
    await windows.offer(places(A, 9, 1))

    assert await windows.finish("one", {refill: [order(2), order(3)]}, 2) == [A]
    await windows.offer(places(A, 9))
    assert await windows.peek([A]) == [3]
    await windows.take([A], 1)
    await windows.offer(places(A, 8, 0))
    assert await windows.take([A], 9) == (places(A, 0, 2, 3), [A])


async def test_what_was_offered_during_a_refill_that_died_is_no_matter(windows: Windows, link: Link) -> None:
    await windows.begin([A], "one")
    await windows.offer(places(A, 1, 2, 3))
    await link.client.delete(link.key("R", "q\0a"))
    await fill(windows, *places(A, 4))

    assert await numbers(windows) == [4]


async def test_a_refill_goes_on_from_the_edge(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 2, 3, 4, 5))
    await windows.take([A], 2)
    [refill] = await windows.begin([A], "one")

    assert refill.after == order(3)
    assert await windows.finish("one", {refill: [order(4), order(5)]}, 3) == [A]
    assert await windows.take([A], 9) == (places(A, 3, 4, 5), [])


async def test_a_refill_from_an_edge_that_moved_does_not_count(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 2, 3, 4))
    [refill] = await windows.begin([A], "one")
    await windows.offer(places(A, 0))

    assert await windows.finish("one", {refill: [order(4)]}, 3) == []
    assert await windows.take([A], 9) == (places(A, 0, 1, 2), [A])
    assert [again.after for again in await windows.begin([A], "two")] == [order(2)]


async def test_a_refill_of_a_window_that_holds_all_starts_over(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 2))
    [refill] = await windows.begin([A], "one")

    assert refill.after is None
    assert await windows.finish("one", {refill: [order(3)]}, 3) == [A]
    assert await numbers(windows) == [3]


# Peeking --------------------------------------------------------------------------


async def test_a_peek_tells_none_where_a_take_would_lack(windows: Windows) -> None:
    await fill(windows, *places(A, 1, 2, 3, 4), of=[A, B])

    assert await windows.peek([A, B]) == [3, 0]
    assert await numbers(windows) == [1, 2, 3]
    assert await windows.peek([A, B]) == [None, 0]
    assert await windows.peek([]) == []


# Much, odd and extreme --------------------------------------------------------------


async def test_many_are_offered_at_once(link: Link) -> None:
    windows = Windows(link, 2 * MANY)
    await fill(windows)
    [refill] = await windows.begin([A], "one")
    await windows.offer(places(A, *range(MANY)))

    assert await windows.peek([A]) == [MANY]
    assert await windows.finish("one", {refill: []}, windows.size) == [A]
    assert await numbers(windows, count=MANY + 1) == list(range(MANY))


async def test_many_are_found_by_a_refill(link: Link) -> None:
    windows = Windows(link, MANY)
    await fill(windows, *places(A, *range(MANY + 1)), *places(B, *range(MANY, MANY + 10)), of=[A, B])

    assert await numbers(windows, B) == list(range(MANY, MANY + 10))
    assert await windows.take([A], MANY) == (places(A, *range(MANY)), [])
    assert await windows.take([A], 1) == ([], [A])


ODD_NAMES = [
    "",
    " ",
    "'",
    '"',
    "\\",
    "{",
    "}",
    "{}",
    "{q}:a",
    "*?[a]",
    "ä",
    "a\u0308",
    "\U0001f32d",
    "\ufeff",
    "a:b",
    "W",
]


async def test_odd_names_are_told_apart(windows: Windows) -> None:
    odd = [Window(queue, state) for queue, state in itertools.product(ODD_NAMES, ODD_NAMES)]
    await fill(windows, *(place(window, number) for number, window in enumerate(odd)), of=odd)

    for number, window in enumerate(odd):
        assert await numbers(windows, window) == [number]


async def test_names_are_not_run_together(windows: Windows) -> None:
    alike = [Window("a", "bc"), Window("ab", "c"), Window("abc", ""), Window("", "abc")]
    await fill(windows, *(place(window, number) for number, window in enumerate(alike)), of=alike)

    assert [await numbers(windows, window) for window in alike] == [[0], [1], [2], [3]]


async def test_any_priority_has_its_place(link: Link) -> None:
    windows = Windows(link, 10)
    ranks = [-(2**31) + 1, -(2**31) + 2, -1, 0, 1, 2**31 - 1, 2**31]
    ready = [place(A, 10 - number, rank) for number, rank in enumerate(ranks)]
    await fill(windows)
    await windows.offer(reversed(ready))

    assert (await windows.take([A], 10)).candidates == ready


# Keys -------------------------------------------------------------------------------


async def test_every_key_ends_by_itself_and_has_the_same_hash_tag(windows: Windows, link: Link) -> None:
    odd = [A, B, Window("{x}", "}")]
    await fill(windows, *places(A, 1, 2, 3, 4), of=odd)
    await windows.offer([*places(A, 0), *places(B, 5), *places(odd[2], 6)])
    await windows.begin(odd, "one")
    await windows.offer(hint for window in odd for hint in places(window, 7))
    before = [key async for key in link.client.scan_iter(f"{link.key('?', '')}*")]
    lives = {key: await link.client.pttl(key) for key in before}
    slots = {key_slot(key) for key in before}

    assert len(before) == 4 * len(odd)
    assert all(0 < life <= 2 * 3600 * 1000 for life in lives.values()), lives
    assert len(slots) == 1


async def test_servers_with_windows_of_other_sizes_hide_nothing(link: Link) -> None:
    small, large = Windows(link, 1), Windows(link, 3)
    begun = await large.begin([A], "token")
    await small.offer(places(A, 1, 2, 3))
    await large.finish("token", dict.fromkeys(begun, ()), 3)

    assert await numbers(large) == [1, 2, 3]


async def test_what_is_no_member_is_passed_over(windows: Windows, link: Link) -> None:
    await fill(windows, *places(A, 1, 2))
    [held] = windows._keys([A], "W")
    await link.client.zadd(held, {"": 0, "0garbage": 0})

    assert await numbers(windows) == [1, 2]


@pytest.mark.parametrize("count", [1, 2, 7, 50])
async def test_many_windows_are_merged(link: Link, count: int) -> None:
    large = Windows(link, 100)
    many = [Window(f"q{number}", "a") for number in range(9)]
    ready = [place(many[number * number % 9], number) for number in range(40)]
    await fill(large, *ready, of=many)

    taken: list[int] = []
    while some := await numbers(large, *many, count=count):
        assert len(some) <= count
        taken += some
    assert taken == list(range(40))
