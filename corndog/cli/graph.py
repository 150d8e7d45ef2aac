"""A job drawn as a tree: each task stands once, below the last of those that it depends on.

Of a large job it shows the tasks that matter most, with what leads to them, and counts the others where they would be.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec
from rich.text import Text
from rich.tree import Tree

from corndog.cli.output import one_line

NAMES_SHOWN = 3  # of the tasks that one depends on


class Phase(StrEnum):
    """Where a task is; those that people look for come first."""

    FAILED = "failed"
    HELD = "held"
    CANCELED = "canceled"
    READY = "ready"
    PARKED = "parked"
    COMPLETED = "completed"


STYLES = {
    Phase.FAILED: "bold red",
    Phase.HELD: "yellow",
    Phase.CANCELED: "magenta",
    Phase.READY: "cyan",
    Phase.PARKED: "blue",
    Phase.COMPLETED: "green",
}


class Job(msgspec.Struct):
    """What people are shown of a job."""

    id: str
    name: str | None
    status: str
    submit_time: str
    end_time: str | None
    task_count: int

    def __str__(self) -> str:
        name = f"{one_line(self.name)}, " if self.name else ""
        return f"{self.id} ({name}{self.status}, {self.task_count} {'task' if self.task_count == 1 else 'tasks'})"


class Depends(msgspec.Struct):
    """A dependency of a task."""

    name: str
    done: bool


class Task(msgspec.Struct):
    """What people are shown of a task of a job."""

    name: str
    phase: Phase
    current_state: str
    held_by: str | None
    attempt: int
    max_attempts: int | None
    last_error: str | None
    canceled_by: str | None
    depends_on: list[Depends]


class Graph(msgspec.Struct):
    """A job with its tasks, parents before their children."""

    job: Job
    phase_counts: dict[str, int]
    tasks: list[Task]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a job is drawn."""

    depth: int | None
    phases: frozenset[Phase]
    limit: int


def counted(phases: Mapping[str, int]) -> str:
    """Say how many tasks are in each phase."""
    return ", ".join(f"{phases[phase]} {phase}" for phase in Phase if phases.get(phase)) or "no tasks"


def draw(graph: Graph, shown: Shown) -> Tree:
    """Draw a job."""
    tasks = graph.tasks
    above = _above(tasks)
    chosen = _chosen(tasks, above, shown)
    root = Tree(one_line(graph.job.name or graph.job.id))
    branches: dict[int | None, Tree] = {None: root}
    hidden: defaultdict[int | None, Counter[str]] = defaultdict(Counter)
    nearest: dict[int | None, int | None] = {None: None}
    for place, task in enumerate(tasks):
        parent = nearest[above[place]]
        if place in chosen:
            nearest[place] = place
            branches[place] = branches[parent].add(_label(task))
        else:
            nearest[place] = parent
            if task.phase in shown.phases:
                hidden[parent][task.phase] += 1
    for parent, phases in hidden.items():
        branches[parent].add(Text(f"… {phases.total()} more: {counted(phases)}", style="dim"))
    return root


def _above(tasks: Sequence[Task]) -> list[int | None]:
    """Tell for each task which one it is drawn below: the last of those that it depends on."""
    places = {task.name: place for place, task in enumerate(tasks)}
    return [max((places[parent.name] for parent in task.depends_on), default=None) for task in tasks]


def _chosen(tasks: Sequence[Task], above: Sequence[int | None], shown: Shown) -> set[int]:
    """Choose the tasks that are drawn: those that matter most, each with all that are above it."""
    levels: list[int] = []
    for parent in above:
        levels.append(1 if parent is None else levels[parent] + 1)
    chosen: set[int] = set()
    for place in _by_weight(tasks, shown.phases):
        if len(chosen) >= shown.limit:
            break
        if shown.depth is not None and levels[place] > shown.depth:
            continue
        path: set[int] = set()
        step: int | None = place
        while step is not None and step not in chosen and len(chosen) + len(path) <= shown.limit:
            path.add(step)
            step = above[step]
        if len(chosen) + len(path) <= shown.limit:
            chosen |= path
    return chosen


def _by_weight(tasks: Sequence[Task], phases: Collection[Phase]) -> list[int]:
    weights = {phase: weight for weight, phase in enumerate(Phase) if phase in phases}
    return sorted(
        (place for place, task in enumerate(tasks) if task.phase in weights),
        key=lambda place: weights[tasks[place].phase],
    )


def _label(task: Task) -> Text:
    label = Text.assemble(one_line(task.name), "  ", (one_line(task.current_state), STYLES[task.phase]))
    if notes := ", ".join(_notes(task)):
        label.append(f"  {notes}", style="dim")
    return label


def _notes(task: Task) -> Iterable[str]:
    if task.phase is Phase.HELD and task.held_by:
        yield f"by {one_line(task.held_by)}"
    if task.canceled_by and task.canceled_by != "parent":  # then the error says which one
        yield "with its job" if task.canceled_by == "job" else f"by {task.canceled_by}"
    if task.attempt:
        yield f"attempt {task.attempt}" + ("" if task.max_attempts is None else f" of {task.max_attempts}")
    if task.last_error and task.phase is not Phase.COMPLETED:
        yield one_line(task.last_error)
    if len(task.depends_on) > 1:
        names = [one_line(parent.name) for parent in task.depends_on[:NAMES_SHOWN]]
        more = len(task.depends_on) - len(names)
        done = sum(parent.done for parent in task.depends_on)
        yield f"after {', '.join(names)}{f' and {more} more' if more else ''} ({done} of {len(task.depends_on)} done)"
