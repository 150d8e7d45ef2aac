"""What lies under the state machine: how commands are run, and how the answers of rules and store are compared."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from corndog.domain.errors import CorndogError
from corndog.domain.listing import Filter, Include
from corndog.domain.task import Match, Phase
from corndog.service.writes import Written
from corndog.store.reading import now as database_time
from tests.store.commands import told
from tests.store.counting import Counting
from tests.store.house import TABLES, House
from tests.store.model import Model, match_for

_T = TypeVar("_T")


class Driver(Counting):
    """Drives a model and a house with the same commands."""

    def __init__(self, loop: asyncio.AbstractEventLoop, house: House) -> None:
        super().__init__(loop, house)
        self.model = Model()

    def teardown(self) -> None:
        """Compare every row of every table."""
        stored = self.run(self.house.everything())
        entries = self.model.listed(Filter()), self.model.listed(Filter(archived=True))
        for task_id in self.model.tasks:
            read = self.run(self.house.reading.get(task_id, Include(payload=True, result=True)))
            assert read == self.model.entry(task_id)
        assert [len(stored[table]) for table in TABLES] == [
            *map(len, entries), len(self.model.payloads), len(self.model.results), len(self.model.runs), 0, 0, 0
        ]  # fmt: skip
        for row in stored["task_runs"]:
            run = self.model.runs[row["task_id"], row["delivery"]]
            assert (row["worker_id"], row["claim_time"], row["outcome"]) == (run.worker_id, run.claim_time, run.outcome)
            assert (row["end_time"], row["request"] is None) == (run.end_time, run.request is None)
            assert row["error"] == run.error
        for row in stored["archived_tasks"]:
            outcome, request, next_ids = self.model.ends[row["id"]]
            assert (row["outcome"], row["request"] is None) == (outcome, request is None)
            assert tuple(row["next_task_ids"]) == next_ids

    # How answers are compared ----------------------------------------------------

    def nearest(self, task_id: UUID, phase: Phase | None) -> UUID:
        """Find the task itself or, if there is one, the next in the phase."""
        ids = list(self.model.tasks)
        place = ids.index(task_id)
        around = ids[place:] + ids[:place]
        return next((other for other in around if phase in {None, self.model.tasks[other].phase}), task_id)

    def match(self, task_id: UUID, aim: dict[str, str]) -> Match:
        return match_for(self.model.tasks[task_id], **aim)

    def now(self) -> datetime:
        return self.run(self.house.database.run(database_time))

    def follow(self, ids: Sequence[UUID], apply: Callable[[UUID, datetime], None]) -> None:
        """Do to the model what the store should have done to these tasks, and compare."""
        for task_id in ids:
            stored = self.run(self.house.reading.get(task_id, Include())).task
            apply(task_id, stored.update_time)
            assert stored == self.model.tasks[task_id]

    def refusal_of(self, judge: Callable[[], object]) -> CorndogError | None:
        try:
            judge()
        except CorndogError as error:
            return error
        return None

    def answer(self, expected: CorndogError | None, work: Awaitable[_T]) -> _T | None:
        """Run a command; None if it is refused, as it should be."""

        async def run() -> tuple[_T | None, CorndogError | None]:
            try:
                return await work, None
            except CorndogError as error:
                return None, error

        answer, refusal = self.run(run())
        assert told(refusal) == told(expected)
        return answer

    def write(
        self, task_id: UUID, judge: Callable[[], bool], work: Awaitable[Written], next_ids: Sequence[UUID] = ()
    ) -> Written | None:
        """Write a task; None if it is refused, or answered from history, as it should be."""
        is_repeat = False

        def note() -> None:
            nonlocal is_repeat
            is_repeat = judge()

        written = self.answer(self.refusal_of(note), work)
        if not is_repeat:
            return written
        assert written == Written(task=self.model.tasks[task_id], next_task_ids=next_ids, replayed=True)
        return None
