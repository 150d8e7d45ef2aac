"""The calls that end tasks, or one of their tries, and that revive them."""

from corndog.api import examples
from corndog.api.answers.tasks import Changed, Completed, ManyRevived, changed, view, view_revived
from corndog.api.claims import check_claim, claim_next
from corndog.api.exchanges import Answer, Call
from corndog.api.reading import answer, media_of_answer, read, read_id, read_optional
from corndog.api.requests.endings import Cancel, CompleteAndClaim, Fail, Revive, ReviveMany
from corndog.api.routing import BODY, WRITE, Endpoint, route
from corndog.domain.errors import CorndogError
from corndog.domain.listing import Include, Place

_TAG = "Tasks"


@route(
    "POST",
    "/v1/tasks/{id}/complete",
    operation_id="complete_task",
    tag=_TAG,
    summary="Complete a task",
    takes=CompleteAndClaim,
    gives=Completed,
    refuses=WRITE,
    examples=examples.COMPLETE,
)
async def complete_task(call: Call) -> Answer:
    """Archive a task as completed, keep its result, and submit its next tasks, all in one transaction.

    The same request again is answered the same, and marked as replayed. Once it is committed, what `claim` asks for is
    handed out with the answer: so a worker's loop is one request for each task.
    """
    media, wanted = read(call, CompleteAndClaim)
    terms = call.services.terms
    check_claim(call, wanted.claim)
    written = await call.services.endings.complete(
        read_id(call), wanted.to_match(), wanted.to_result(media, terms), wanted.to_next(media, terms)
    )
    claimed = await claim_next(call, wanted.claim)
    reply = media_of_answer(call)
    return answer(
        reply,
        Completed(
            task=view(reply, written.task),
            next_tasks=list(written.next_task_ids),
            replayed=written.replayed,
            claimed=claimed,
        ),
    )


@route(
    "POST",
    "/v1/tasks/{id}/cancel",
    operation_id="cancel_task",
    tag=_TAG,
    summary="Cancel a task",
    takes=Cancel,
    needs_body=False,
    gives=Changed,
    refuses=WRITE,
    examples=examples.CANCEL,
)
async def cancel_task(call: Call) -> Answer:
    """Archive a task as canceled, whoever holds it; the holder learns of it at its next write."""
    wanted = read_optional(call, Cancel)
    written = await call.services.endings.cancel(read_id(call), wanted.to_match())
    reply = media_of_answer(call)
    return answer(reply, changed(reply, written))


@route(
    "POST",
    "/v1/tasks/{id}/fail",
    operation_id="fail_task",
    tag=_TAG,
    summary="Report a failed try",
    takes=Fail,
    gives=Changed,
    refuses=WRITE,
    examples=examples.FAIL,
)
async def fail_task(call: Call) -> Answer:
    """Use up an attempt of a held task: it is parked until its backoff is over, and then ready again.

    When none is left, or the failure is not `retryable`, it is archived as failed: a dead letter, which can be revived.
    """
    _, wanted = read(call, Fail)
    written = await call.services.endings.fail(read_id(call), wanted.to_match(), wanted.to_failure())
    reply = media_of_answer(call)
    return answer(reply, changed(reply, written))


@route(
    "POST",
    "/v1/tasks/{id}/revive",
    operation_id="revive_task",
    tag=_TAG,
    summary="Revive a failed or canceled task",
    takes=Revive,
    needs_body=False,
    gives=Changed,
    refuses=WRITE,
    examples=examples.REVIVE,
)
async def revive_task(call: Call) -> Answer:
    """Make an ended task live again, under the same id and with a full budget; with it what its end has canceled.

    A task that is live already is answered as it is, and marked as replayed.
    """
    read_optional(call, Revive)
    written = await call.services.revivals.revive(read_id(call))
    reply = media_of_answer(call)
    return answer(reply, changed(reply, written))


@route(
    "POST",
    "/v1/tasks/revive",
    operation_id="revive_tasks",
    tag=_TAG,
    summary="Revive many tasks",
    takes=ReviveMany,
    gives=ManyRevived,
    refuses=BODY,
    examples=examples.REVIVE_MANY,
)
async def revive_tasks(call: Call) -> Answer:
    """Revive the named tasks, or those that a filter finds among the ended ones; each by itself, as `results` tell.

    With `dry_run` nothing is written, and the results show the tasks as they are.
    """
    _, wanted = read(call, ReviveMany)
    revivals = call.services.revivals
    ids = wanted.to_ids(call.services.terms)
    more = False
    if ids is None and wanted.filter:
        page = await call.services.reading.page(wanted.filter.to_filter(), Place(), wanted.limit, Include())
        ids, more = [entry.task.id for entry in page.entries], page.following is not None
    revived = await revivals.many(ids or [], dry_run=wanted.dry_run)
    reply = media_of_answer(call)
    results = [view_revived(reply, task_id, outcome) for task_id, outcome in revived]
    failed = sum(isinstance(outcome, CorndogError) for _, outcome in revived)
    return answer(reply, ManyRevived(results, failed, more))


HANDLERS: list[Endpoint] = [
    complete_task,
    fail_task,
    cancel_task,
    revive_task,
    revive_tasks,
]
