"""Revival within a job: any graph, lived through by naive rules, and each revival held to a naive one."""

from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from uuid import UUID

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corndog.domain.jobs import Edge
from corndog.domain.revival import Revival, is_ended_by_job, revival
from corndog.domain.task import ARCHIVED, CanceledBy, Phase, Task
from tests.unit.samples import LATER, blocked, ready

STOPPED = {Phase.FAILED, Phase.CANCELED}
Parents = list[dict[int, bool]]
"""For each task the tasks before it that it depends on, and whether it runs on their failure."""


class World:
    """A job that lives: what the store does to its tasks and dependencies, task by task."""

    def __init__(self, parents: Parents) -> None:
        self.tasks: dict[UUID, Task] = {}
        self.edges: dict[tuple[UUID, UUID], Edge] = {}
        for place, depends_on in enumerate(parents):
            child = UUID(int=place)
            self.tasks[child] = msgspec.structs.replace(
                blocked() if depends_on else ready(), id=child, waiting_on=len(depends_on)
            )
            for parent, runs in depends_on.items():
                edge = Edge(child_id=child, parent_id=UUID(int=parent), done=False, run_on_failure=runs)
                self.edges[child, edge.parent_id] = edge

    def edges_of(self, child: UUID) -> list[Edge]:
        return [edge for edge in self.edges.values() if edge.child_id == child]

    def change(self, task_id: UUID, **fields: object) -> None:
        self.tasks[task_id] = msgspec.structs.replace(self.tasks[task_id], **fields)

    def hold(self, task_id: UUID) -> None:
        if self.tasks[task_id].phase is Phase.READY:
            self.change(task_id, phase=Phase.HELD, delivery=1)

    def retry(self, task_id: UUID) -> None:
        if self.tasks[task_id].phase is Phase.HELD:
            self.change(task_id, phase=Phase.PARKED, due_time=LATER + timedelta(hours=1))

    def complete(self, task_id: UUID) -> None:
        self._end(task_id, Phase.COMPLETED, None)

    def fail(self, task_id: UUID) -> None:
        self._end(task_id, Phase.FAILED, None)

    def cancel(self, task_id: UUID) -> None:
        self._end(task_id, Phase.CANCELED, CanceledBy.REQUEST)

    def cancel_job(self, _task_id: UUID) -> None:
        for task in list(self.tasks.values()):
            if task.phase not in ARCHIVED:
                self.change(task.id, phase=Phase.CANCELED, canceled_by=CanceledBy.JOB)

    def _end(self, task_id: UUID, phase: Phase, by: CanceledBy | None) -> None:
        task = self.tasks[task_id]
        if task.phase in ARCHIVED or (task.is_blocked and by is None):
            return
        self.change(task_id, phase=phase, canceled_by=by)
        for edge in [edge for edge in self.edges.values() if edge.parent_id == task_id]:
            if phase is Phase.COMPLETED or edge.run_on_failure:
                self._settle(edge)
            elif self.tasks[edge.child_id].is_blocked:
                self._end(edge.child_id, Phase.CANCELED, CanceledBy.PARENT)

    def _settle(self, edge: Edge) -> None:
        child = self.tasks[edge.child_id]
        if not edge.done and child.is_blocked:
            self.wait(child.id, child.waiting_on - 1)
        self.edges[edge.child_id, edge.parent_id] = msgspec.structs.replace(edge, done=True)

    def wait(self, task_id: UUID, number: int) -> None:
        phase = Phase.PARKED if number else Phase.READY
        self.change(task_id, phase=phase, due_time=None, waiting_on=number, canceled_by=None)

    def revive(self, task_id: UUID) -> None:
        if self.tasks[task_id].phase in STOPPED:
            plan = self._plan([task_id])
            if task_id in plan.waiting_on:
                self._apply(plan)
            else:  # a refusal has its reason
                assert any(
                    self.tasks[edge.parent_id].phase in STOPPED and not edge.run_on_failure
                    for edge in self.edges_of(task_id)
                )

    def revive_job(self, _task_id: UUID) -> None:
        self._apply(self._plan([task.id for task in self.tasks.values() if is_ended_by_job(task)]))

    def _plan(self, wanted: Collection[UUID]) -> Revival:
        plan = revival(self.tasks, list(self.edges.values()), wanted)
        lives = naive_revived(self, wanted)
        assert plan.waiting_on == {child: len(naive_open(self, child, lives)) for child in lives}
        reopened = {
            key: key[1]
            for key, edge in self.edges.items()
            if edge.done and edge.parent_id in lives and self.tasks[edge.child_id].is_blocked
        }
        assert plan.more == {
            child: sum(key[0] == child for key in reopened) for child in {child for child, _ in reopened}
        }
        done = {key: key not in reopened and edge.done for key, edge in self.edges.items()}
        done |= {
            (child, e.parent_id): e not in naive_open(self, child, lives)
            for child in lives
            for e in self.edges_of(child)
        }
        changed = [
            msgspec.structs.replace(edge, done=done[key]) for key, edge in self.edges.items() if edge.done != done[key]
        ]
        assert list(plan.edges) == changed
        return plan

    def _apply(self, plan: Revival) -> None:
        for task_id, number in plan.waiting_on.items():
            assert self.tasks[task_id].phase in STOPPED
            self.wait(task_id, number)
        for edge in plan.edges:
            self.edges[edge.child_id, edge.parent_id] = edge
        for task_id, number in plan.more.items():
            self.wait(task_id, self.tasks[task_id].waiting_on + number)
        for task_id in plan.waiting_on:
            assert all(edge.done == (self.tasks[edge.parent_id].phase in ARCHIVED) for edge in self.edges_of(task_id))

    def check(self) -> None:
        """What waits waits for what it must, and for nothing that never comes."""
        for task in self.tasks.values():
            if task.phase in ARCHIVED:
                continue
            edges = self.edges_of(task.id)
            assert not any(self.tasks[e.parent_id].phase in STOPPED and not e.run_on_failure for e in edges)
            if task.is_blocked:
                still_open = [edge for edge in edges if not edge.done]
                assert task.waiting_on == len(still_open) > 0
                assert not any(self.tasks[edge.parent_id].phase in ARCHIVED for edge in still_open)


def naive_revived(world: World, wanted: Iterable[UUID]) -> set[UUID]:
    """Take in what parents' ends have canceled below until nothing moves, then drop what is still stopped."""
    lives = set(wanted)
    stopping = [edge for edge in world.edges.values() if not edge.run_on_failure]
    while (
        more := {
            edge.child_id
            for edge in stopping
            if edge.parent_id in lives and world.tasks[edge.child_id].canceled_by is CanceledBy.PARENT
        }
        - lives
    ):
        lives |= more
    while (
        stopped := {
            edge.child_id
            for edge in stopping
            if world.tasks[edge.parent_id].phase in STOPPED and edge.parent_id not in lives
        }
        & lives
    ):
        lives -= stopped
    return lives


def naive_open(world: World, child: UUID, lives: Collection[UUID]) -> list[Edge]:
    """Give the dependencies on tasks that live, or live again."""
    return [
        edge
        for edge in world.edges_of(child)
        if edge.parent_id in lives or world.tasks[edge.parent_id].phase not in ARCHIVED
    ]


ACTS: dict[str, Callable[[World, UUID], None]] = {
    name: getattr(World, name)
    for name in ("hold", "retry", "complete", "fail", "cancel", "cancel_job", "revive", "revive_job")
}
# Revivals are what this is about.
acts = st.sampled_from([*ACTS, "fail", "fail", "complete", "revive", "revive", "revive"])


@st.composite
def parents(draw: st.DrawFn) -> Parents:
    number = draw(st.integers(1, 7))
    return [
        draw(st.dictionaries(st.integers(0, place - 1), st.booleans(), max_size=3)) if place else {}
        for place in range(number)
    ]


@settings(max_examples=1000)
@given(parents(), st.lists(st.tuples(acts, st.integers(0, 6)), max_size=25))
@example([{}, {0: True}], [("fail", 0), ("fail", 1), ("revive", 0), ("revive", 1)])
def test_any_life_of_a_job(given_parents: Parents, life: list[tuple[str, int]]) -> None:
    world = World(given_parents)
    for act, place in life:
        ACTS[act](world, UUID(int=place % len(given_parents)))
        world.check()
