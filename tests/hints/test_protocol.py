"""Whatever two servers do, and whatever becomes of them and of Redis: the windows keep what they promise.

The promise is in `world`. That it is checked well is shown by breaking the protocol in one place after another: each
time it is noticed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import Phase as Effort
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from corndog.domain.task import Phase, Window
from corndog.hints.link import LUA, Link
from corndog.hints.windows import Windows
from tests.hints.places import TIMEOUT, new_prefix
from tests.hints.world import ROUNDS, WINDOWS, Broken, Fate, Flaws, Operation, Steps, World

_T = TypeVar("_T")

TASKS_MAX = 8
OPERATIONS_MAX = 3
SIZE_MAX = 3

servers = st.sampled_from([0, 1])
numbers = st.integers(0, TASKS_MAX)
counts = st.integers(1, 3)
ranks = st.integers(0, 2)
some_ranks = st.lists(ranks, min_size=1, max_size=3)
windows = st.sampled_from(WINDOWS)
several = st.sampled_from([WINDOWS, WINDOWS[:1], WINDOWS[1:], WINDOWS[::-1]])
paces = st.sampled_from([1, 1, 2, 3, ROUNDS])
fates = st.sampled_from([Fate.ANSWERED] * 4 + [Fate.UNSENT, Fate.UNANSWERED])


class BrokenWindows(Windows):
    """Windows with one script changed in one place."""

    def __init__(self, link: Link, size: int, name: str, was: str, becomes: str) -> None:
        super().__init__(link, size)
        text = (LUA / f"{name}.lua").read_text()
        assert text.count(was) == 1
        setattr(self, f"_{name}", link.client.register_script(text.replace(was, becomes)))


class Machine(RuleBasedStateMachine):
    """Anything that servers do, in any order, and nothing goes wrong."""

    is_troubled = False

    def __init__(self, loop: asyncio.AbstractEventLoop, make: Callable[[int], World]) -> None:
        super().__init__()
        self.loop = loop
        self.make = make

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self.loop.run_until_complete(work)

    @initialize(size=st.sampled_from([1, 1, 2, 2, 3]), ready=st.tuples(st.just([]) | some_ranks, some_ranks))
    def begin(self, size: int, ready: Sequence[Sequence[int]]) -> None:
        self.size = size
        self.world = self.make(size)
        self.run(self.world.flush())
        for window, ranks in zip(WINDOWS, ready, strict=True):
            if ranks:
                self.submit(server=0, window=window, ranks=ranks, fate=Fate.ANSWERED, pace=ROUNDS)
        self.refill(server=0, several=WINDOWS, limit=size, pace=ROUNDS)

    def fate(self, fate: Fate) -> Fate:
        return fate if self.is_troubled else Fate.ANSWERED

    def start(self, server: int, run: Callable[[Operation], Steps], pace: int) -> None:
        """Have a server begin something, if there isn't too much under way already for anything to end."""
        if len(self.world.operations) < OPERATIONS_MAX:
            self.run(self.world.begin(server, run, pace))

    @precondition(lambda self: self.world.number_of_tasks() < TASKS_MAX)
    @rule(server=servers, window=windows, ranks=some_ranks, fate=fates, pace=paces)
    def submit(self, server: int, window: Window, ranks: Sequence[int], fate: Fate, pace: int) -> None:
        new = ranks[: TASKS_MAX - self.world.number_of_tasks()]
        self.start(server, lambda operation: self.world.submit(operation, window, new, self.fate(fate)), pace)

    @rule(
        server=servers,
        number=numbers,
        phase=st.sampled_from([Phase.HELD, Phase.READY]),
        place=st.tuples(windows, ranks),
        fate=fates,
        pace=paces,
    )
    def make_ready(
        self, server: int, number: int, phase: Phase, place: tuple[Window, int], fate: Fate, pace: int
    ) -> None:
        if row := self.world.some_task(number, phase):
            self.start(server, lambda operation: self.world.make_ready(operation, row, place, self.fate(fate)), pace)

    @rule(
        server=servers,
        several=several,
        count=counts,
        locked=st.sampled_from([0, 0, 0, 1, 2]),
        fates=st.tuples(fates, fates),
        pace=paces,
    )
    def claim(
        self, server: int, several: Sequence[Window], count: int, locked: int, fates: tuple[Fate, Fate], pace: int
    ) -> None:
        fates = self.fate(fates[0]), self.fate(fates[1])
        self.start(server, lambda operation: self.world.claim(operation, several, count, locked, fates), pace)

    @rule(server=servers, several=several, limit=st.integers(1, SIZE_MAX), pace=paces)
    def refill(self, server: int, several: Sequence[Window], limit: int, pace: int) -> None:
        limit = min(limit, self.size)
        self.start(server, lambda operation: self.world.refill(operation, several, limit), pace)

    @rule(server=servers, limit=st.integers(1, SIZE_MAX), pace=paces)
    def reconcile(self, server: int, limit: int, pace: int) -> None:
        limit = min(limit, self.size)
        self.start(server, lambda operation: self.world.reconcile(operation, limit), pace)

    @precondition(lambda self: self.world.operations)
    @rule(number=numbers)
    def finish(self, number: int) -> None:
        self.go_on(number=number, steps=ROUNDS)

    @precondition(lambda self: self.world.operations)
    @rule(number=numbers, steps=paces)
    def go_on(self, number: int, steps: int) -> None:
        operations = self.world.operations
        self.run(self.world.advance(operations[number % len(operations)], steps))

    @rule(count=counts, limit=st.integers(1, SIZE_MAX))
    def settle(self, count: int, limit: int) -> None:
        self.run(self.world.settle(count, min(limit, self.size)))

    @invariant()
    def holds(self) -> None:
        self.run(self.world.look())

    def teardown(self) -> None:
        self.run(self.world.settle(count=1, limit=1))


class TroubledMachine(Machine):
    """Anything may go wrong as well."""

    is_troubled = True

    @rule(number=numbers, phase=st.sampled_from([Phase.HELD, Phase.HELD, Phase.READY]))
    def end(self, number: int, phase: Phase) -> None:
        if row := self.world.some_task(number, phase):
            row.phase = Phase.COMPLETED

    @precondition(lambda self: self.world.operations)
    @rule(server=servers)
    def crash(self, server: int) -> None:
        self.world.crash(server)

    @rule(what=st.sampled_from(["flush", "expire R", "expire R", "expire E", "save", "rewind"]))
    def happen(self, what: str) -> None:
        name, *arguments = what.split()
        self.run(getattr(self.world, name)(*arguments))


NO_FLAWS = Flaws()


def play(
    accelerator_url: str,
    kind: type[Machine],
    make: Callable[[Link, int], Windows] = Windows,
    flaws: Flaws = NO_FLAWS,
    profile: settings | None = None,
) -> None:
    loop = asyncio.new_event_loop()
    link = Link(accelerator_url, prefix=new_prefix(), timeout=TIMEOUT)
    terms = {size: make(link, size) for size in range(1, SIZE_MAX + 1)}
    try:
        run_machine(
            lambda: kind(loop, lambda size: World(link, terms[size], flaws)),  # type: ignore[arg-type]  # any maker
            settings=settings(profile, stateful_step_count=40),
        )
    finally:
        loop.run_until_complete(link.close())
        loop.close()


@pytest.mark.parametrize("kind", [Machine, TroubledMachine])
def test_whatever_happens_the_windows_keep_their_promise(accelerator_url: str, kind: type[Machine]) -> None:
    play(accelerator_url, kind, profile=settings(max_examples=150))


SCRIPTS = {
    "a refill finishes though its mark is gone": ("finish", "redis.call('GET', R) == token", "true"),
    "a refill that found its limit claims to know all": ("finish", "rows == limit", "false"),
    "the edge stays where it is when a refill is cut": ("finish", "edge = redis.call('ZRANGE', W, -1, -1)[1]", ""),
    "offers during a refill are not kept": ("offer", "redis.call('EXISTS', R) == 1", "false"),
    "the edge stays where it is when a window is cut": ("offer", "redis.call('SET', E, edge, 'KEEPTTL')", ""),
    "the edge stays behind the heads": ("offer", "#all == limit and", "false and"),
    "heads are cut, and the edge stays behind them": ("offer", "redis.call('SET', E, all[limit], 'KEEPTTL')", ""),
    "takes go beyond the lowest edge": ("take", "member <= bound and member", "member"),
    "the bound is the highest edge": ("take", "edge < bound", "edge > bound"),
    "takes do not merge": ("take", "heads[heap[c]] < heads[heap[least]]", "false"),
    "an unknown window is believed to be empty": ("take", "or ''", "or 'z'"),
    "what is beyond the edge is believed to be nothing": ("take", "bound ~= 'z'", "bound == ''"),
    "an unknown window looks empty": ("peek", "edge and (number > 0 or edge == 'z')", "true"),
    "a window taken empty looks empty": ("peek", "(number > 0 or edge == 'z')", "true"),
}
FLAWS = {
    "a claim does not look at the rank": Flaws(ignore_rank=True),
    "what was popped in vain is not offered again": Flaws(keep_unused=True),
    "a failed offer is not followed by forgetting": Flaws(never_forget=True),
}


TROUBLE = {
    "a refill finishes though its mark is gone",
    "the edge stays behind the heads",
    "an unknown window is believed to be empty",
    "an unknown window looks empty",
    "a failed offer is not followed by forgetting",
}
"""What is noticed only if something goes wrong besides."""

SEARCH = settings(max_examples=5000, phases=[Effort.generate], report_multiple_bugs=False)


def kind_for(flaw: str) -> type[Machine]:
    return TroubledMachine if flaw in TROUBLE else Machine


@pytest.mark.parametrize("flaw", SCRIPTS)
def test_a_change_in_a_script_is_noticed(accelerator_url: str, flaw: str) -> None:
    change = SCRIPTS[flaw]
    with pytest.raises(Broken):
        play(accelerator_url, kind_for(flaw), lambda link, size: BrokenWindows(link, size, *change), profile=SEARCH)


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_in_a_server_is_noticed(accelerator_url: str, flaw: str) -> None:
    with pytest.raises(Broken):
        play(accelerator_url, kind_for(flaw), flaws=FLAWS[flaw], profile=SEARCH)
