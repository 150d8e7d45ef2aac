"""Counts under a state machine: they are exact after each command, whatever was folded in between."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from corndog.store import counts
from tests.store.house import COUNTS, TABLES, House

_T = TypeVar("_T")


class Counting(RuleBasedStateMachine):
    """A machine that folds at any time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, house: House) -> None:
        super().__init__()
        self.loop = loop
        self.house = house

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self.loop.run_until_complete(work)

    def empty(self) -> None:
        for table in TABLES + COUNTS:
            self.run(self.house.rows(f"DELETE FROM {table}"))

    @rule(batch=st.sampled_from([1, 2, 1000]), at_least=st.sampled_from([1, 2]), everywhere=st.booleans())
    def fold(self, batch: int, at_least: int, everywhere: bool) -> None:
        self.run(self.house.database.run(lambda c: counts.fold(c, batch, at_least=at_least, everywhere=everywhere)))

    @rule(drops=st.booleans())
    def raise_floor(self, drops: bool) -> None:
        # Nobody else writes: the longest transaction takes no time.
        self.run(self.house.database.run(lambda c: counts.raise_floor(c, timedelta(0))))
        if drops:
            self.run(self.house.database.run(counts.drop_zeros))

    @invariant()
    def counts_are_exact(self) -> None:
        assert self.run(self.house.reading.counts()) == self.run(self.house.true_counts())
        assert self.run(self.house.database.run(counts.wrong)) == []
