"""What a caller may ask for: each check passes in silence, or raises the refusal.

The store's statements demand the same in their WHERE; where one has written nothing, these say why.
"""

from datetime import timedelta

from corndog.domain.errors import Code, Conflict, Invalid
from corndog.domain.task import ARCHIVED, Change, Match, NewTask, Phase, Task
from corndog.domain.transitions import is_move, working


def check_new(new: NewTask, at: str = "") -> None:
    """Hold a submit to the rules that concern more than one field; `at` prefixes the field named in the error.

    Raises:
        Invalid: `delay` and `run_at` together, or a clock that would end in a state without workers.

    """
    if new.delay is not None and new.run_at is not None:
        raise Invalid("give either `delay` or `run_at`, not both", field=f"{at}run_at")
    _check_clock(new.timeout, new.auto_target_state, new.current_state, at)


def check_change(task: Task, change: Change) -> None:
    """Hold an update to the rule on clocks, which needs to know whether it moves the task.

    Raises:
        Invalid: a new state with a clock that would end in a state without workers.

    """
    if is_move(task, change) and change.new_state is not None:
        _check_clock(change.timeout, change.auto_target_state, change.new_state, "")


def check_given(match: Match) -> None:
    """Refuse a write that says nothing about the task that it takes itself to write.

    Raises:
        Invalid: neither `delivery` nor `current_state` is given.

    """
    if match.delivery is None and match.current_state is None:
        raise Invalid(
            "required: a held task is written with its `delivery`, any other with its `current_state`",
            field="current_state",
        )


def _check_clock(timeout: timedelta | None, target: str | None, state: str, at: str) -> None:
    if timeout and target is None:
        raise Invalid(
            f"with a `timeout`, an unclaimed task would time out into `{working(state)}`, where no worker looks: "
            "name an `auto_target_state`, or give `work_timeout` if you meant the time that each claim gets",
            field=f"{at}timeout",
        )


def check_match(task: Task, match: Match, *, parked_too: bool) -> None:
    """Demand that the caller's view of the task is right, and that the task may be written by it.

    `parked_too` allows tasks that are parked until a time, as update and complete do.

    Raises:
        Conflict: it is not, and this says what is there.

    """
    if task.phase in ARCHIVED:
        raise Conflict(Code.ENDED, f"the task has already ended: it is {task.phase}", task)
    if task.phase is Phase.HELD and match.delivery is None:
        raise Conflict(Code.HELD, f"the task is held (delivery {task.delivery}): only its holder may write it", task)
    check_fields(task, match)
    if task.is_blocked:
        raise Conflict(Code.BLOCKED, "the task waits for other tasks: it can only be canceled", task)
    if task.phase is Phase.PARKED and not parked_too:
        raise Conflict(Code.STATE_MISMATCH, f"the task is parked in state {task.current_state!r}", task)


def check_queue(task: Task, match: Match) -> None:
    """Demand that a given queue is the task's: of what can be matched, only this stays when a task ends.

    Raises:
        Conflict: it is not.

    """
    if match.queue is not None and match.queue != task.queue:
        raise Conflict(Code.QUEUE_MISMATCH, f"the task is in queue {task.queue!r}", task)


def check_fields(task: Task, match: Match) -> None:
    """Demand that each given field agrees with the task, and that a given delivery holds it.

    Raises:
        Conflict: one does not.

    """
    if match.delivery is not None and (task.phase is not Phase.HELD or task.delivery != match.delivery):
        raise Conflict(Code.STALE_DELIVERY, f"delivery {match.delivery} does not hold the task", task)
    check_queue(task, match)
    if match.current_state is not None and match.current_state != task.current_state:
        raise Conflict(Code.STATE_MISMATCH, f"the task is in state {task.current_state!r}", task)
