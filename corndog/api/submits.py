"""The calls that submit a task."""

from http import HTTPStatus

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import RawBody

from corndog.api import examples
from corndog.api.answers.tasks import Submitted, view
from corndog.api.contents import OCTETS
from corndog.api.keys import read_key
from corndog.api.requests.submits import RawSubmit, SubmitFields, SubmitOnce
from corndog.api.routing import (
    ONCE,
    AnyRequest,
    answer,
    media_of_answer,
    read,
    read_query,
    refuse_compression,
    route,
    services,
)
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
async def submit_task(request: AnyRequest, body: RawBody) -> Response[bytes]:
    """Make a task: ready at once, or parked until `delay` is over or `run_at` has come.

    Under an idempotency key the same request makes it once, and is answered with its id each time.
    """
    media, wanted = read(request, body, SubmitOnce)
    key = read_key(request, wanted.idempotency_key)
    return await _submit(request, wanted, wanted.to_new(media, services(request).terms), key)


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
async def submit_raw_task(request: AnyRequest, body: RawBody) -> Response[bytes]:
    """Make a task whose payload is the request's body, byte for byte, and whose content type is the request's."""
    wanted = read_query(request, RawSubmit)
    key = read_key(request, wanted.idempotency_key)
    refuse_compression(request)
    media_type = request.headers.get("content-type", OCTETS)
    check_media_type(media_type, "Content-Type")
    check_size(len(body), services(request).terms.payload, "payload")
    new = wanted.to_task(services(request).terms, Content(body, media_type, is_json=False))
    return await _submit(request, wanted, new, key)


async def _submit(request: AnyRequest, wanted: SubmitFields, new: NewTask, key: str | None) -> Response[bytes]:
    submits = services(request).submits
    reply = media_of_answer(request)
    if key is None:
        task = await submits.submit(new)
        return answer(reply, Submitted(task.id, view(reply, task), replayed=False), HTTPStatus.CREATED)
    done = await submits.submit_once([new], Key(key, hash_of("submit", wanted.asked(new))))
    [task_id], [found] = done.ids, done.tasks
    shown = None if found is None else view(reply, found)
    return answer(reply, Submitted(task_id, shown, done.replayed), HTTPStatus.CREATED)


HANDLERS: list[HTTPRouteHandler] = [
    submit_task,
    submit_raw_task,
]
