"""One state machine drives the pure rules and the real store with the same commands, and demands the same answers.

The rules take the time from the row that the database wrote; all else must be equal, field by field. Clocks are a
microsecond (over by the next command) or an hour and more (never over), so what is due is known.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, initialize, multiple, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from msgspec import structs

from corndog.domain import checks, replays, transitions
from corndog.domain.listing import Entry, Filter, Include, Place
from corndog.domain.task import Change, Claim, Content, Failure, Hold, Match, NewTask, Phase, Standing
from corndog.hints.hints import Hints
from corndog.service.writes import Written
from corndog.store.engine import Database, Isolation
from tests.store.commands import (
    FUTURE,
    PAST,
    UNKNOWN,
    aims,
    changes,
    claims,
    clocks,
    failures,
    news,
    payloads,
    phases,
    queues,
    rarely,
)
from tests.store.driver import Driver
from tests.store.house import MICROSECOND, STRATEGIES, House
from tests.store.model import match_for

Send: TypeAlias = Callable[[], Sequence[UUID]]
"""A write as it was sent; gives the ids of tasks that came of it."""


def check_all(news: Sequence[NewTask], at: str = "") -> None:
    for place, new in enumerate(news):
        checks.check_new(new, at=at.format(place=place))


class FixedChance(Random):
    """Chance that is known."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self._chance = chance

    def random(self) -> float:
        return self._chance


FIELDS = {"worker_id": "held_by", "submitted_after": "submit_time", "submitted_before": "submit_time"}


class Machine(Driver):
    """Any commands, in any order."""

    tasks = Bundle("tasks")
    requests = Bundle("requests")

    @initialize(target=tasks, asked=st.lists(news, min_size=3, max_size=5))
    def begin(self, asked: list[NewTask]) -> MultipleResults[UUID]:
        self.empty()
        assert self.house.hints
        self.run(forget_all(self.house.hints))
        self.beaten = [Hold(UNKNOWN, 1)]
        return self.submit(asked=asked)

    # Commands that name no task ----------------------------------------------

    @rule(target=tasks, asked=st.lists(news, min_size=1, max_size=3))
    def submit(self, asked: list[NewTask]) -> MultipleResults[UUID]:
        refusal = self.refusal_of(lambda: check_all(asked))
        submitted = self.answer(refusal, self.house.submits.submit_all(asked))
        if submitted is None:
            return multiple()
        ids = [task.id for task in submitted]
        self.model.submit(asked, ids, submitted[0].update_time)
        assert submitted == [self.model.tasks[task_id] for task_id in ids]
        return multiple(*ids)

    @rule(claim=claims, strategy=st.sampled_from(STRATEGIES))
    def claim(self, claim: Claim, strategy: str) -> None:
        expected = self.model.next(claim)
        entries = self.run(self.house.claims[strategy].claim(claim))
        assert [entry.task.id for entry in entries] == expected
        for entry in entries:
            self.model.claim(entry.task.id, claim, entry.task.update_time)
            assert entry == self.model.entry(entry.task.id)

    @rule(task_id=tasks, claim=claims, strategy=st.sampled_from(STRATEGIES))
    def claim_one_like(self, task_id: UUID, claim: Claim, strategy: str) -> None:
        task = self.model.tasks[self.nearest(task_id, Phase.READY)]
        like = msgspec.structs.replace(claim, queues=(task.queue, "elsewhere"), current_state=task.current_state)
        self.claim(claim=like, strategy=strategy)

    @rule(target=tasks, asked=st.lists(news, min_size=1, max_size=2), claim=claims, is_lost=st.booleans())
    def submit_and_claim(self, asked: list[NewTask], claim: Claim, is_lost: bool) -> MultipleResults[UUID]:
        submitted = self.submit(asked=asked)
        for task_id in submitted.values:
            self.claim_one_like(task_id=task_id, claim=claim, strategy="scan")
            if is_lost and (due_time := self.model.tasks[task_id].due_time):
                self.sweep(due_time, None)
                self.claim_one_like(task_id=task_id, claim=claim, strategy="by_heads")
        return submitted

    @rule(task_id=tasks, at=st.sampled_from(["now", "past", "future", "due", "early"]), queue=st.none() | queues)
    def clean_up(self, task_id: UUID, at: str, queue: str | None) -> None:
        due_time = self.model.tasks[task_id].due_time or FUTURE
        times = {"now": None, "past": PAST, "future": FUTURE, "due": due_time, "early": due_time - MICROSECOND}
        self.sweep(times[at], queue)

    def sweep(self, at_time: datetime | None, queue: str | None) -> None:
        now = self.now()
        expected = self.model.timed_out(now if at_time is None else at_time, now, queue)
        assert self.run(self.house.clocks.clean_up(at_time, queue)) == len(expected)
        self.follow(expected, self.model.time_out)

    @rule(_task_id=tasks)
    def unpark(self, _task_id: UUID) -> None:
        expected = self.model.due(self.now())
        assert self.run(self.house.clocks.unpark()) == len(expected)
        self.follow(expected, self.model.unpark)

    # Commands that name a task -----------------------------------------------

    @rule(target=requests, task_id=tasks, phase=phases, aim=aims, change=changes)
    def update(self, task_id: UUID, phase: Phase | None, aim: dict[str, str], change: Change) -> Send:
        task_id = self.nearest(task_id, phase)
        send = partial(self.do_update, task_id, self.match(task_id, aim), change)
        send()
        return send

    def do_update(self, task_id: UUID, match: Match, change: Change) -> Sequence[UUID]:
        request = repr(("update", match, change)).encode()

        def judge() -> bool:
            checks.check_given(match)
            if self.model.is_repeat(task_id, match.delivery, request):
                return True
            checks.check_match(self.model.known(task_id), match, parked_too=True)
            checks.check_change(self.model.known(task_id), change)
            return False

        if written := self.write(task_id, judge, self.house.tasks.update(task_id, match, change)):
            self.model.update(task_id, change, written.task.update_time, request)
            assert written == Written(task=self.model.tasks[task_id])
        return ()

    @rule(target=requests, task_id=tasks, phase=phases, aim=aims, delay=st.none() | clocks)
    def release(self, task_id: UUID, phase: Phase | None, aim: dict[str, str], delay: timedelta | None) -> Send:
        task_id = self.nearest(task_id, phase)
        send = partial(self.do_release, task_id, self.match(task_id, aim), delay)
        send()
        return send

    def do_release(self, task_id: UUID, match: Match, delay: timedelta | None) -> Sequence[UUID]:
        request = repr(("release", match, delay)).encode()

        def judge() -> bool:
            if self.model.is_repeat(task_id, match.delivery, request):
                return True
            checks.check_match(self.model.known(task_id), match, parked_too=False)
            return False

        if match.delivery is None:
            return ()  # the API demands it
        if written := self.write(task_id, judge, self.house.tasks.release(task_id, match, delay)):
            self.model.release(task_id, delay, written.task.update_time, request)
            assert written == Written(task=self.model.tasks[task_id])
        return ()

    @rule(target=requests, task_id=tasks, aim=aims, failure=failures)
    def fail(self, task_id: UUID, aim: dict[str, str], failure: Failure) -> Send:
        task_id = self.nearest(task_id, Phase.HELD)
        send = partial(self.do_fail, task_id, self.match(task_id, aim), failure)
        send()
        return send

    def do_fail(self, task_id: UUID, match: Match, failure: Failure) -> Sequence[UUID]:
        request = repr(("fail", match, failure)).encode()

        def judge() -> bool:
            if self.model.is_repeat(task_id, match.delivery, request):
                return True
            checks.check_match(self.model.known(task_id), match, parked_too=False)
            return False

        if match.delivery is None:
            return ()  # the API demands it
        self.house.endings._random = FixedChance(failure.chance)
        asked = msgspec.structs.replace(failure, chance=0.0)
        if written := self.write(task_id, judge, self.house.endings.fail(task_id, match, asked)):
            self.model.fail(task_id, failure, written.task.update_time, request)
            assert written == Written(task=self.model.tasks[task_id])
        return ()

    @rule(task_id=tasks, phase=st.sampled_from([Phase.FAILED, Phase.FAILED, Phase.CANCELED, Phase.COMPLETED, None]))
    def revive(self, task_id: UUID, phase: Phase | None) -> None:
        task_id = self.nearest(task_id, phase)

        def judge() -> bool:
            return replays.is_revive_replay(self.model.known(task_id))

        if written := self.write(task_id, judge, self.house.revivals.revive(task_id)):
            self.model.revive(task_id, written.task.update_time)
            assert written == Written(task=self.model.tasks[task_id])

    @rule(task_id=tasks)
    def read_history(self, task_id: UUID) -> None:
        told = [structs.replace(run, request=None) for run in self.run(self.house.reading.runs(task_id))]
        assert told == [structs.replace(run, request=None) for run in self.model.history(task_id)]

    @rule(target=requests, task_id=tasks, phase=phases, aim=aims, result=payloads, is_meant=rarely)
    def complete(
        self, task_id: UUID, phase: Phase | None, aim: dict[str, str], result: Content | None, is_meant: bool
    ) -> Send | MultipleResults[Send]:
        task_id = self.nearest(task_id, phase)
        if self.model.tasks[task_id].phase is Phase.READY and not is_meant:
            return multiple()  # or little would ever be claimed
        send = partial(self.do_complete, task_id, self.match(task_id, aim), result, [])
        send()
        return send

    @rule(target=tasks, task_id=tasks, aim=aims, asked=st.lists(news, min_size=1, max_size=2))
    def complete_with_next(self, task_id: UUID, aim: dict[str, str], asked: list[NewTask]) -> MultipleResults[UUID]:
        task_id = self.nearest(task_id, Phase.HELD)
        if self.model.tasks[task_id].phase is Phase.READY:
            return multiple()
        return multiple(*self.do_complete(task_id, self.match(task_id, aim), None, asked))

    def do_complete(
        self, task_id: UUID, match: Match, result: Content | None, asked: Sequence[NewTask]
    ) -> Sequence[UUID]:
        request = repr(("complete", match, result, asked)).encode()

        def judge() -> bool:
            checks.check_given(match)
            check_all(asked, at="next_tasks[{place}].")
            if self.model.is_repeat(task_id, match.delivery, request):
                return True
            checks.check_match(self.model.known(task_id), match, parked_too=True)
            return False

        _, _, submitted = self.model.ends.get(task_id, (None, None, ()))
        written = self.write(task_id, judge, self.house.endings.complete(task_id, match, result, asked), submitted)
        if written is None:
            return ()
        next_ids = written.next_task_ids
        self.model.complete(task_id, result, next_ids, written.task.update_time, request)
        assert written == Written(task=self.model.tasks[task_id], next_task_ids=next_ids)
        if next_ids:
            first = self.run(self.house.reading.get(next_ids[0], Include())).task
            self.model.submit(asked, next_ids, first.update_time)
        return next_ids

    @rule(task_id=tasks, aim=aims, is_meant=rarely)
    def cancel(self, task_id: UUID, aim: dict[str, str], is_meant: bool) -> None:
        if is_meant:
            self.do_cancel(task_id, self.match(task_id, aim))

    def do_cancel(self, task_id: UUID, match: Match) -> None:
        def judge() -> bool:
            if replays.is_cancel_replay(self.model.known(task_id)):
                checks.check_queue(self.model.known(task_id), match)
                return True
            checks.check_fields(self.model.known(task_id), match)
            return False

        if written := self.write(task_id, judge, self.house.endings.cancel(task_id, match)):
            self.model.cancel(task_id, written.task.update_time)
            assert written == Written(task=self.model.tasks[task_id])

    @rule(task_id=tasks, aim=st.sampled_from(["right", "right", "old", "new"]))
    def heartbeat(self, task_id: UUID, aim: str) -> None:
        """Send a heartbeat for one more delivery, and for those that it was sent for before."""
        task = self.model.tasks[self.nearest(task_id, Phase.HELD)]
        self.beaten.append(Hold(task.id, match_for(task, aim, "none", "none").delivery or 1))
        self.heartbeat_again()

    @rule()
    def heartbeat_again(self) -> None:
        before = self.now()
        answered = self.run(self.house.heartbeats.beat(self.beaten))
        after = self.now()
        assert [(beat.id, beat.delivery) for beat in answered] == [(hold.id, hold.delivery) for hold in self.beaten]
        for beat in answered:
            task = self.model.tasks.get(beat.id)
            assert beat.standing is transitions.standing(task, beat.delivery)
            if task is None or beat.standing is not Standing.HELD or task.timeout is None:
                assert beat.lease_expires is None
            elif beat.lease_expires != task.due_time:
                assert beat.lease_expires
                now = beat.lease_expires - task.timeout
                assert before <= now <= after
                self.model.extend(beat.id, now)
        for hold in set(self.beaten) - {Hold(UNKNOWN, 1)}:
            assert self.run(self.house.reading.get(hold.id, Include())).task == self.model.tasks[hold.id]

    @rule(target=tasks, send=requests)
    def repeat(self, send: Send) -> MultipleResults[UUID]:
        """Send a request again, however it was answered."""
        return multiple(*send())

    @rule(task_id=tasks)
    def block(self, task_id: UUID) -> None:
        """Plant a task that waits for others, as a job will."""
        task = self.model.tasks[task_id]
        if task.phase is Phase.READY:
            self.run(self.house.block(task))
            self.model.tasks[task_id] = self.run(self.house.reading.get(task_id, Include())).task
            assert self.model.tasks[task_id].is_blocked

    @rule(
        match=st.sampled_from([Match(), Match(delivery=1), Match(current_state="a")]), change=changes, is_meant=rarely
    )
    def write_an_unknown_task(self, match: Match, change: Change, is_meant: bool) -> None:
        if is_meant:
            self.do_update(UNKNOWN, match, change)
            self.do_complete(UNKNOWN, match, None, [])
            self.do_cancel(UNKNOWN, match)
            self.do_release(UNKNOWN, match, None)

    # Reading -------------------------------------------------------------------

    @rule(
        task_id=tasks,
        archived=st.booleans(),
        by=st.sets(st.sampled_from(["queue", "current_state", "phase", "kind", *FIELDS]), max_size=2),
        limit=st.integers(1, 4),
    )
    def list_pages(self, task_id: UUID, archived: bool, by: set[str], limit: int) -> None:
        like = self.model.tasks[task_id]
        fields: dict[str, Any] = {name: getattr(like, FIELDS.get(name, name)) for name in by}
        wanted = Filter(archived=archived, **fields)
        listed: list[Entry] = []
        after: Place | None = Place()
        while after is not None:
            page = self.run(self.house.reading.page(wanted, after, limit, Include(payload=True, result=True)))
            assert len(page.entries) == limit or page.following is None
            listed += page.entries
            after = page.following
        assert listed == self.model.listed(wanted)

    @rule(queue=st.none() | queues)
    def count(self, queue: str | None) -> None:
        assert self.run(self.house.reading.counts(queue)) == self.model.counts(queue)


async def forget_all(hints: Hints) -> None:
    keys = [key async for key in hints.link.client.scan_iter(f"{hints.link.key('', '')[:-2]}*")]
    if keys:
        await hints.link.client.unlink(*keys)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_the_rules_and_the_store_agree(empty_database_url: str, accelerator_url: str, isolation: Isolation) -> None:
    loop = asyncio.new_event_loop()
    database = Database(empty_database_url, isolation=isolation, pool_size=1)
    hints = Hints(accelerator_url, prefix=f"test-{uuid4().hex}", timeout=30, window_size=3)
    try:
        run_machine(
            lambda: Machine(loop, House(database, hints=hints)),  # type: ignore[arg-type]  # any maker will do
            settings=settings(settings.default, max_examples=100, stateful_step_count=50),
        )
    finally:
        loop.run_until_complete(hints.link.close())
        loop.run_until_complete(database.close())
        loop.close()
