"""A store as the conformance suite drives it: single statements, and what they leave."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

from corndog.domain.listing import Entry, Include
from corndog.domain.task import Claim, Match, NewTask, Outcome, Phase, Task
from corndog.store import claims as claim_store
from corndog.store import reading
from corndog.store import tasks as store
from corndog.store.engine import Connection
from corndog.store.rows import Found
from tests.store.house import DEFAULT_TIMEOUT, House

_T = TypeVar("_T")

EVERYTHING = Include(payload=True, result=True)


class Bench(House):
    """Runs single statements of the store."""

    async def do(self, work: Callable[[Connection], Awaitable[_T]]) -> _T:
        return await self.database.run(work)

    async def put(self, *news: NewTask) -> list[Task]:
        """Submit tasks through the statement itself."""
        items = [store.Submission(uuid4(), new) for new in news]
        written = await self.do(lambda c: store.submit(c, items))
        return [written[item.id] for item in items]

    async def put_one(self, **asked: Any) -> Task:  # noqa: ANN401
        [task] = await self.put(NewTask(**asked))
        return task

    async def put_held(self, **asked: Any) -> Task:  # noqa: ANN401
        task = await self.put_one(**asked)
        [entry] = await self.take(task.id, token=uuid4())
        return entry.task

    async def put_blocked(self, **asked: Any) -> Task:  # noqa: ANN401
        task = await self.put_one(**asked)
        await self.block(task)
        return await self.task(task.id)

    async def take(self, *ids: UUID, token: UUID, worker_id: str = "w", clock: timedelta | None = None) -> list[Entry]:
        """Claim certain tasks."""
        first = await self.task(ids[0])
        claim = Claim(
            queues=(first.queue,),
            current_state=first.current_state,
            worker_id=worker_id,
            override_timeout=clock,
        )
        ask = claim_store.Ask(claim, len(ids), token)
        wanted = [(ask, (await self.task(task_id)).candidate) for task_id in ids]
        handed = await self.do(lambda c: claim_store.claim_by_key(c, wanted, DEFAULT_TIMEOUT))
        assert not handed or set(handed) == {token}
        return handed.get(token, [])

    async def task(self, task_id: UUID) -> Task:
        return (await self.entry(task_id)).task

    async def entry(self, task_id: UUID) -> Entry:
        return (await self.do(lambda c: reading.get(c, [task_id], EVERYTHING)))[task_id]

    async def found(self, task_id: UUID, delivery: int | None = None) -> Found:
        [found] = await self.do(lambda c: store.look_up(c, [store.Sought(task_id, delivery)]))
        assert found is not None
        return found

    async def end(self, *items: store.Ending) -> dict[UUID, Task]:
        return await self.do(lambda c: store.end(c, items, phase=Phase.COMPLETED, outcome=Outcome.SUCCEEDED))

    async def cancel(self, *items: store.Ending) -> dict[UUID, Task]:
        return await self.do(
            lambda c: store.end(c, items, phase=Phase.CANCELED, outcome=Outcome.CANCELED, any_phase=True)
        )


def in_different_ways() -> Sequence[tuple[str, Match]]:
    """List matches that fit neither a ready task in queue `q` nor the first hold of one."""
    return [
        ("another queue", Match(queue="p", current_state="submitted")),
        ("another state", Match(current_state="submitted-working")),
        ("a delivery", Match(delivery=1)),
        ("a delivery and the state", Match(delivery=1, current_state="submitted")),
    ]
