"""The calls that submit tasks."""

from http import HTTPStatus

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import RawBody

from corndog.api import examples
from corndog.api.answers.tasks import One, view
from corndog.api.contents import OCTETS
from corndog.api.requests.submits import Submit, SubmitFields
from corndog.api.routing import (
    BODY,
    AnyRequest,
    answer,
    media_of_answer,
    read,
    read_query,
    refuse_compression,
    route,
    services,
)
from corndog.domain.limits import check_media_type, check_size
from corndog.domain.task import Content

_TAG = "Tasks"


@route(
    "POST",
    "/v1/tasks",
    operation_id="submit_task",
    tag=_TAG,
    summary="Submit a task",
    takes=Submit,
    gives=One,
    status=HTTPStatus.CREATED,
    refuses=BODY,
    examples=examples.SUBMIT,
)
async def submit_task(request: AnyRequest, body: RawBody) -> Response[bytes]:
    """Make a task: ready at once, or parked until `delay` is over or `run_at` has come."""
    media, wanted = read(request, body, Submit)
    new = wanted.to_new(media, services(request).terms)
    [task] = await services(request).submits.submit([new])
    reply = media_of_answer(request)
    return answer(reply, One(view(reply, task)), HTTPStatus.CREATED)


@route(
    "POST",
    "/v1/tasks/raw",
    operation_id="submit_raw_task",
    tag=_TAG,
    summary="Submit a task with a body of any media type",
    takes_raw=True,
    query=SubmitFields,
    gives=One,
    status=HTTPStatus.CREATED,
    refuses=BODY,
    examples=examples.SUBMIT_RAW,
)
async def submit_raw_task(request: AnyRequest, body: RawBody) -> Response[bytes]:
    """Make a task whose payload is the request's body, byte for byte, and whose content type is the request's."""
    wanted = read_query(request, SubmitFields)
    refuse_compression(request)
    media_type = request.headers.get("content-type", OCTETS)
    check_media_type(media_type, "Content-Type")
    check_size(len(body), services(request).terms.payload, "payload")
    new = wanted.to_task(services(request).terms, Content(body, media_type, is_json=False))
    [task] = await services(request).submits.submit([new])
    reply = media_of_answer(request)
    return answer(reply, One(view(reply, task)), HTTPStatus.CREATED)


HANDLERS: list[HTTPRouteHandler] = [
    submit_task,
    submit_raw_task,
]
