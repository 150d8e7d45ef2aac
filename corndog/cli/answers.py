"""What servers answer about tasks, as far as people are shown it."""

import msgspec

from corndog.cli.http import read
from corndog.cli.output import say, show_json

LONGEST_SHOWN = 60  # characters of a payload in a table


class Task(msgspec.Struct):
    """What people are shown of a task."""

    id: str
    queue: str
    current_state: str
    auto_target_state: str
    phase: str
    priority: int
    delivery: int
    due_time: str | None
    payload: msgspec.Raw = msgspec.Raw()
    payload_base64: str = ""


class One(msgspec.Struct):
    """An answer with one task."""

    task: Task
    next_tasks: list[str] = []
    replayed: bool = False


class Submitted(msgspec.Struct):
    """An answer to a submit; the task is none if it is purged by now."""

    id: str
    task: Task | None
    replayed: bool


class Many(msgspec.Struct):
    """An answer with tasks."""

    tasks: list[Task]


class Details(msgspec.Struct):
    """An answer with one task and all its fields."""

    task: dict[str, msgspec.Raw]


class Counts(msgspec.Struct):
    """How many tasks of a queue are in each state."""

    queue: str
    state_counts: dict[str, int]


class AllCounts(msgspec.Struct):
    """The same of all queues."""

    queue_and_state_counts: dict[str, Counts]


class TimedOut(msgspec.Struct):
    """How many tasks a sweep has timed out."""

    timed_out: int


def show_written(done: str, answer: bytes, *, as_json: bool) -> None:
    """Show what has been done to a task."""
    if as_json:
        show_json(answer)
        return
    one = read(answer, One)
    say(_line(done, one.task, replayed=one.replayed))
    for task_id in one.next_tasks:
        say(f"submitted: {task_id}")


def show_submitted(answer: bytes, *, as_json: bool) -> None:
    """Show which task has been submitted."""
    if as_json:
        show_json(answer)
        return
    submitted = read(answer, Submitted)
    if submitted.task is None:
        say(f"submitted before: {submitted.id} (purged)")
    else:
        say(_line("submitted", submitted.task, replayed=submitted.replayed))


def _line(done: str, task: Task, *, replayed: bool) -> str:
    before = " before" if replayed else ""
    return f"{done}{before}: {task.id} (queue {task.queue}, {task.phase}, {task.current_state})"


def excerpt(task: Task) -> str:
    """Give the beginning of the payload."""
    text = text_of(task.payload) if task.payload else task.payload_base64
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def text_of(value: msgspec.Raw) -> str:
    """Give a JSON value as text: a string without its quotes, unless there is something in it to be wary of."""
    text = bytes(value).decode()
    plain = msgspec.json.decode(text, type=str) if text.startswith('"') else text
    return plain if plain.isprintable() else text
