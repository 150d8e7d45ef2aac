"""The call that hands tasks out; a completion can carry the same."""

import logging

from corndog.api import examples, problems
from corndog.api.answers.tasks import Claimed, Many, Task, view_entry
from corndog.api.exchanges import Answer, Call
from corndog.api.fields import UNGIVEN, Ungiven
from corndog.api.reading import answer, caller_of, media_of_answer, read
from corndog.api.requests.tasks import Next
from corndog.api.routing import BODY, Endpoint, route

logger = logging.getLogger(__name__)


@route(
    "POST",
    "/v1/tasks/next",
    operation_id="claim_tasks",
    tag="Tasks",
    summary="Claim the next tasks",
    takes=Next,
    gives=Many,
    refuses=BODY,
    examples=examples.NEXT,
)
async def claim_tasks(call: Call) -> Answer:
    """Hand out up to `count` ready tasks: highest priority first, then oldest, over all the queues.

    The states of each swap and its clock starts. If nothing is ready it waits for the first task for `wait` seconds;
    then an empty list is the answer. A client that hangs up claims nothing, or its tasks are released at once.
    """
    _, wanted = read(call, Next)
    tasks = await _claim(call, wanted)
    return answer(media_of_answer(call), Many(tasks))


async def claim_next(call: Call, wanted: Next | None) -> Claimed | Ungiven:
    """Claim after a completion, which stands whatever becomes of this."""
    if wanted is None:
        return UNGIVEN
    try:
        return Claimed(tasks=await _claim(call, wanted))
    except Exception as error:  # noqa: BLE001 - it must not hide what has been done
        return Claimed(error=problems.problem_of_any(error))


def check_claim(call: Call, wanted: Next | None) -> None:
    """Refuse a claim that is wrong, before the completion that carries it.

    Raises:
        Invalid: it is; nothing has been done.

    """
    if wanted is not None:
        wanted.to_claim(call.services.terms, "claim.")
        wanted.to_wait("claim.")


async def _claim(call: Call, wanted: Next) -> list[Task]:
    with caller_of(call) as caller:
        entries = await call.services.claims.claim(
            wanted.to_claim(call.services.terms),
            wanted.to_wait(),
            caller,
            with_dependencies="dependencies" in wanted.include,
        )
    reply = media_of_answer(call)
    return [view_entry(reply, entry) for entry in entries]


HANDLERS: list[Endpoint] = [claim_tasks]
