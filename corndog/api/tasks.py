"""The calls that hand tasks out and move them."""

from corndog.api import examples
from corndog.api.answers.tasks import Changed, changed
from corndog.api.answers.workers import Beats, view_beats
from corndog.api.exchanges import Answer, Call
from corndog.api.reading import answer, media_of_answer, read, read_id
from corndog.api.requests.tasks import Release, Update
from corndog.api.requests.workers import Heartbeat
from corndog.api.routing import BODY, WRITE, Endpoint, route

_TAG = "Tasks"


@route(
    "POST",
    "/v1/tasks/heartbeat",
    operation_id="heartbeat_tasks",
    tag=_TAG,
    summary="Keep what a worker holds",
    takes=Heartbeat,
    gives=Beats,
    refuses=BODY,
    examples=examples.HEARTBEAT,
)
async def heartbeat_tasks(call: Call) -> Answer:
    """Extend the leases of all deliveries that a worker holds: a deadline becomes now and the length of its clock.

    Before half of a lease is over, the present one may be the answer. A delivery that is `lost` or `canceled` may
    write no more: stop working on it. A worker that is to `drain` claims no more, and ends once it holds nothing.
    """
    media, wanted = read(call, Heartbeat)
    terms = call.services.terms
    told = await call.services.workers.beat(wanted.worker_id, wanted.to_metadata(media, terms), wanted.to_holds(terms))
    return answer(media_of_answer(call), view_beats(told))


@route(
    "PATCH",
    "/v1/tasks/{id}",
    operation_id="update_task",
    tag=_TAG,
    summary="Update a task",
    takes=Update,
    gives=Changed,
    refuses=WRITE,
    examples=examples.UPDATE,
)
async def update_task(call: Call) -> Answer:
    """Move a task to `new_state`, where it is ready and nobody holds it; or write its progress.

    A held task is written with its `delivery`, any other with its `current_state`.
    """
    media, wanted = read(call, Update)
    change = wanted.to_change(media, call.services.terms)
    written = await call.services.tasks.update(read_id(call), wanted.to_match(), change)
    reply = media_of_answer(call)
    return answer(reply, changed(reply, written))


@route(
    "POST",
    "/v1/tasks/{id}/release",
    operation_id="release_task",
    tag=_TAG,
    summary="Give a held task back",
    takes=Release,
    gives=Changed,
    refuses=WRITE,
    examples=examples.RELEASE,
)
async def release_task(call: Call) -> Answer:
    """Give a held task back to the states it had when it was ready; at once, or after a delay."""
    _, wanted = read(call, Release)
    written = await call.services.tasks.release(read_id(call), wanted.to_match(), wanted.to_delay())
    reply = media_of_answer(call)
    return answer(reply, changed(reply, written))


HANDLERS: list[Endpoint] = [
    heartbeat_tasks,
    update_task,
    release_task,
]
