"""The calls that submit a task."""

from http import HTTPStatus

from corndog.api import examples
from corndog.api.answers.tasks import Submitted, view
from corndog.api.contents import OCTETS
from corndog.api.exchanges import Answer, Call
from corndog.api.keys import read_key
from corndog.api.reading import answer, media_of_answer, read, read_query, refuse_compression
from corndog.api.requests.submits import RawSubmit, SubmitFields, SubmitOnce
from corndog.api.routing import ONCE, Endpoint, route
from corndog.domain.keys import Key
from corndog.domain.limits import check_media_type, check_size
from corndog.domain.task import Content, NewTask
from corndog.service.requests import hash_of

_TAG = "Tasks"


@route(
    "POST",
    "/v1/tasks",
    operation_id="submit_task",
    tag=_TAG,
    summary="Submit a task",
    takes=SubmitOnce,
    takes_key=True,
    gives=Submitted,
    status=HTTPStatus.CREATED,
    refuses=ONCE,
    examples=examples.SUBMIT,
)
async def submit_task(call: Call) -> Answer:
    """Make a task: ready at once, or parked until `delay` is over or `run_at` has come.

    Under an idempotency key the same request makes it once, and is answered with its id each time.
    """
    media, wanted = read(call, SubmitOnce)
    key = read_key(call, wanted.idempotency_key)
    return await _submit(call, wanted, wanted.to_new(media, call.services.terms), key)


@route(
    "POST",
    "/v1/tasks/raw",
    operation_id="submit_raw_task",
    tag=_TAG,
    summary="Submit a task with a body of any media type",
    takes_raw=True,
    takes_key=True,
    query=RawSubmit,
    gives=Submitted,
    status=HTTPStatus.CREATED,
    refuses=ONCE,
    examples=examples.SUBMIT_RAW,
)
async def submit_raw_task(call: Call) -> Answer:
    """Make a task whose payload is the request's body, byte for byte, and whose content type is the request's."""
    wanted = read_query(call, RawSubmit)
    key = read_key(call, wanted.idempotency_key)
    refuse_compression(call)
    media_type = call.header(b"content-type", OCTETS)
    check_media_type(media_type, "Content-Type")
    check_size(len(call.body), call.services.terms.payload, "payload")
    new = wanted.to_task(call.services.terms, Content(call.body, media_type, is_json=False))
    return await _submit(call, wanted, new, key)


async def _submit(call: Call, wanted: SubmitFields, new: NewTask, key: str | None) -> Answer:
    submits = call.services.submits
    reply = media_of_answer(call)
    if key is None:
        task = await submits.submit(new)
        return answer(reply, Submitted(task.id, view(reply, task), replayed=False), HTTPStatus.CREATED)
    done = await submits.submit_once(new, Key(key, hash_of("submit", wanted.asked(new))))
    [task_id], [found] = done.ids, done.tasks
    shown = None if found is None else view(reply, found)
    return answer(reply, Submitted(task_id, shown, done.replayed), HTTPStatus.CREATED)


HANDLERS: list[Endpoint] = [
    submit_task,
    submit_raw_task,
]
