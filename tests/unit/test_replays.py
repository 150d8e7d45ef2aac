"""Design section 3, "Replays": what a repeated request is told."""

import pytest

from corndog.domain import replays
from corndog.domain.errors import Code, Conflict
from corndog.domain.task import Outcome, Phase, Task
from tests.unit.samples import Past, ended, held, ready, scheduled

SAME, OTHER = b"same", b"other"
COMPLETED = ended(Phase.COMPLETED, held())
COMPLETED_UNHELD = ended(Phase.COMPLETED, ready())


@pytest.mark.parametrize(
    ("past", "delivery"),
    [
        # The delivery was ended by this request, and the task lives on, whatever became of it.
        (Past(task=ready(), run_outcome=Outcome.RELEASED, run_request=SAME), 1),
        (Past(task=held(), run_outcome=Outcome.MOVED, run_request=SAME), 1),
        (Past(task=scheduled(), run_outcome=Outcome.RELEASED, run_request=SAME), 1),
        (Past(task=COMPLETED, end_request=OTHER, run_outcome=Outcome.MOVED, run_request=SAME), 1),
        (Past(task=ended(Phase.CANCELED), run_outcome=Outcome.MOVED, run_request=SAME), 1),
        # The task was completed by this request.
        (Past(task=COMPLETED, end_request=SAME), 1),
        (Past(task=COMPLETED_UNHELD, end_request=SAME), None),
    ],
)
def test_a_repeat(past: Past, delivery: int | None) -> None:
    assert replays.is_replay(past, delivery, SAME)
    with pytest.raises(Conflict) as refusal:
        replays.is_replay(past, delivery, OTHER if past.run_request == SAME else b"third")
    assert refusal.value.code is Code.OTHER_REQUEST
    assert refusal.value.task is past.task


@pytest.mark.parametrize(
    ("past", "delivery"),
    [
        (Past(task=ready()), None),
        (Past(task=held()), 1),
        (Past(task=held()), None),
        # The delivery was lost: nothing was answered, so there is nothing to repeat.
        (Past(task=ready(), run_outcome=Outcome.DEAD), 1),
        (Past(task=COMPLETED, end_request=SAME, run_outcome=Outcome.DEAD), 7),
        # Another delivery, or nobody's, completed the task.
        (Past(task=COMPLETED, end_request=SAME), 2),
        (Past(task=COMPLETED, end_request=SAME), None),
        (Past(task=COMPLETED_UNHELD, end_request=SAME), 1),
        # It ended by no request of this kind.
        (Past(task=ended(Phase.CANCELED, held())), 1),
        (Past(task=ended(Phase.FAILED, held())), 1),
    ],
)
def test_no_repeat(past: Past, delivery: int | None) -> None:
    assert not replays.is_replay(past, delivery, SAME)


@pytest.mark.parametrize("task", [ready(), held(), scheduled()])
def test_a_cancel_of_a_live_task_is_no_repeat(task: Task) -> None:
    assert not replays.is_cancel_replay(task)


def test_a_repeated_cancel() -> None:
    assert replays.is_cancel_replay(ended(Phase.CANCELED, held()))
    assert replays.is_cancel_replay(ended(Phase.CANCELED))
    for phase in (Phase.COMPLETED, Phase.FAILED):
        with pytest.raises(Conflict) as refusal:
            replays.is_cancel_replay(ended(phase))
        assert refusal.value.code is Code.ENDED
