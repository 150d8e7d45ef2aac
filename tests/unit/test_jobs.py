"""Which graphs make a job, and what its tasks say about it: any graphs, held to rules written naively."""

import re
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corndog.domain.errors import Code, Invalid
from corndog.domain.jobs import (
    JOB_DEPENDENCIES_MAX,
    JOB_TASKS_MAX,
    JobStatus,
    Member,
    NewJob,
    faults_of,
    in_order,
    status_of,
)
from corndog.domain.task import NewTask, Phase, Task
from tests.unit.samples import ended, held, ready

GOOD, BAD = NewTask(), NewTask(timeout=timedelta(seconds=1))
"""The second has a clock that would end in a state without workers."""

NAMES = "abcdefghij"


def member(name: str, *depends_on: str, new: NewTask = GOOD) -> Member:
    return Member(name=name, new=new, depends_on=depends_on)


def names(members: Sequence[Member]) -> str:
    return "".join(member.name for member in members)


@st.composite
def graphs(draw: st.DrawFn) -> list[Member]:
    """Draw a graph without cycles, its tasks in any order."""
    order = draw(st.permutations(NAMES[: draw(st.integers(1, len(NAMES)))]))
    members = [
        member(name, *draw(st.lists(st.sampled_from(order[:place]), unique=True)) if place else ())
        for place, name in enumerate(order)
    ]
    return draw(st.permutations(members))


@st.composite
def any_graphs(draw: st.DrawFn) -> list[Member]:
    """Draw a graph that may have every fault; `x` and `y` are never there."""
    some = st.lists(st.sampled_from("abcdxy"), max_size=4)
    return draw(
        st.lists(
            st.builds(
                lambda name, depends_on, new: member(name, *depends_on, new=new),
                st.sampled_from("abcd"),
                some,
                st.sampled_from([GOOD] * 4 + [BAD]),
            ),
            max_size=5,
        )
    )


@given(graphs())
@example([member("a"), member("b", "a"), member("c")])
def test_parents_come_before_their_children_else_as_given(given_members: list[Member]) -> None:
    expected: list[Member] = []
    while len(expected) < len(given_members):
        out = {member.name for member in expected}
        expected.append(
            next(member for member in given_members if member.name not in out and out.issuperset(member.depends_on))
        )
    assert in_order(NewJob(members=given_members)) == expected


@given(any_graphs())
@example([member("a", "b"), member("b", "a"), member("c", "x")])
@example([member("a", "b"), member("b", "a"), member("b")])
def test_all_faults_are_told_at_once(members: list[Member]) -> None:
    expected = naive_faults(members)
    if not expected and not has_cycle(members):
        assert sorted(names(in_order(NewJob(members=members)))) == sorted(names(members))
        return
    with pytest.raises(Invalid) as raised:
        in_order(NewJob(members=members))
    error = raised.value
    assert error.code is Code.INVALID_JOB
    assert error.field == error.faults[0].field
    assert str(error).startswith(error.faults[0].detail)
    cycles = [fault.detail for fault in error.faults if "cycle" in fault.detail]
    assert sorted(fault.field for fault in error.faults if "cycle" not in fault.detail) == sorted(expected)
    assert [is_cycle(path, members) for path in cycles] == [True] * has_cycle(members)


def naive_faults(members: Sequence[Member]) -> list[str]:
    """Name the fields that break a rule."""
    if not members:
        return ["tasks"]
    faults = []
    for place, one in enumerate(members):
        at = f"tasks[{place}]"
        faults += [f"{at}.name"] * (one.name in names(members[:place]))
        faults += [f"{at}.timeout"] * (one.new is BAD)
        faults += [
            f"{at}.depends_on[{number}]"
            for number, name in enumerate(one.depends_on)
            if name == one.name or name not in names(members) or name in one.depends_on[:number]
        ]
    return faults


def has_cycle(members: Sequence[Member]) -> bool:
    """Take out tasks that wait for none that is still there, until none is left, or nothing moves."""
    left = {one.name: set(one.depends_on) - {one.name} for one in reversed(members)}
    while free := [name for name, parents in left.items() if not parents & left.keys()]:
        for name in free:
            del left[name]
    return bool(left)


def is_cycle(detail: str, members: Sequence[Member]) -> bool:
    """Whether a path leads from a task to itself, each depending on the next."""
    path = re.findall(r"'(\w)'", detail)
    parents = {one.name: one.depends_on for one in reversed(members)}
    steps = pairwise(path)
    return len(path) > 2 and path[0] == path[-1] and all(after in parents[before] for before, after in steps)


def test_a_job_has_as_many_tasks_as_it_may() -> None:
    chain = [member("0"), *(member(str(number), str(number - 1)) for number in range(1, JOB_TASKS_MAX))]
    assert in_order(NewJob(members=chain[::-1])) == chain
    with pytest.raises(Invalid, match=rf"^{JOB_TASKS_MAX + 1} are too many"):
        in_order(NewJob(members=[*chain, member("one more")]))


def test_a_job_has_as_many_dependencies_as_it_may() -> None:
    parents = [str(number) for number in range(1000)]
    children = [member(f"child {number}", *parents) for number in range(JOB_DEPENDENCIES_MAX // 1000)]
    full = [*map(member, parents), *children]
    assert in_order(NewJob(members=full)) == full
    with pytest.raises(Invalid, match=rf"^{JOB_DEPENDENCIES_MAX + 1} dependencies are too many"):
        in_order(NewJob(members=[*full, member("one more", "0")]))


LIVE = [ready(), held(), ready(delay=timedelta(hours=1))]
ENDED = [ended(phase, task) for phase in (Phase.COMPLETED, Phase.FAILED, Phase.CANCELED) for task in (ready(), held())]


@given(st.lists(st.sampled_from(LIVE + ENDED), min_size=1, max_size=4))
def test_the_status_is_final_only_when_all_tasks_have_ended(tasks: list[Task]) -> None:
    phases = [task.phase for task in tasks]
    if any(task in LIVE for task in tasks):
        begun = any(task.delivery for task in tasks) or Phase.COMPLETED in phases or Phase.FAILED in phases
        expected = JobStatus.RUNNING if begun else JobStatus.PENDING
    elif Phase.FAILED in phases:
        expected = JobStatus.FAILED
    elif Phase.CANCELED in phases:
        expected = JobStatus.CANCELED
    else:
        expected = JobStatus.COMPLETED
    assert status_of(tasks) is expected


def test_a_long_cycle_is_told_in_short() -> None:
    size = 5000
    members = [Member(name=f"t{n}", new=NewTask(), depends_on=[f"t{(n + 1) % size}"]) for n in range(size)]

    [fault] = faults_of(members)

    assert re.search(r"'t\d+' → \(4981 more\) → 't\d+'", fault.detail)
    assert len(fault.detail) < 500
