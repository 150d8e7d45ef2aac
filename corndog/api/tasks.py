"""The calls that write and read tasks."""

from http import HTTPStatus

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

from corndog.api import answers, examples, requests
from corndog.api.contents import OCTETS
from corndog.api.cursors import decode_cursor, encode_cursor
from corndog.api.queries import GetQuery, ListQuery
from corndog.api.routing import (
    AnyRequest,
    answer,
    caller_of,
    media_of_answer,
    read,
    read_id,
    read_optional,
    read_query,
    refuse_compression,
    refuse_query,
    route,
    services,
)
from corndog.domain.limits import check_media_type, check_size
from corndog.domain.task import Content

_TAG = "Tasks"
_BODY = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_WRITE = (*_BODY, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
_READ = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)


@route(
    "POST",
    "/v1/tasks",
    operation_id="submit_task",
    tag=_TAG,
    summary="Submit a task",
    takes=requests.Submit,
    gives=answers.One,
    status=HTTPStatus.CREATED,
    refuses=_BODY,
    examples=examples.SUBMIT,
)
async def submit_task(request: AnyRequest, body: RawBody) -> Response[bytes]:
    """Make a task: ready at once, or parked until `delay` is over or `run_at` has come."""
    media, wanted = read(request, body, requests.Submit)
    new = wanted.to_new(media, services(request).sizes)
    [task] = await services(request).tasks.submit([new])
    reply = media_of_answer(request)
    return answer(reply, answers.One(answers.view(reply, task)), HTTPStatus.CREATED)


@route(
    "POST",
    "/v1/tasks/raw",
    operation_id="submit_raw_task",
    tag=_TAG,
    summary="Submit a task with a body of any media type",
    takes_raw=True,
    query=requests.SubmitFields,
    gives=answers.One,
    status=HTTPStatus.CREATED,
    refuses=_BODY,
    examples=examples.SUBMIT_RAW,
)
async def submit_raw_task(request: AnyRequest, body: RawBody) -> Response[bytes]:
    """Make a task whose payload is the request's body, byte for byte, and whose content type is the request's."""
    wanted = read_query(request, requests.SubmitFields)
    refuse_compression(request)
    media_type = request.headers.get("content-type", OCTETS)
    check_media_type(media_type, "Content-Type")
    check_size(len(body), services(request).sizes.payload, "payload")
    new = wanted.to_task(Content(body, media_type, is_json=False))
    [task] = await services(request).tasks.submit([new])
    reply = media_of_answer(request)
    return answer(reply, answers.One(answers.view(reply, task)), HTTPStatus.CREATED)


@route(
    "POST",
    "/v1/tasks/next",
    operation_id="claim_tasks",
    tag=_TAG,
    summary="Claim the next tasks",
    takes=requests.Next,
    gives=answers.Many,
    refuses=_BODY,
    examples=examples.NEXT,
)
async def claim_tasks(request: AnyRequest, body: RawBody) -> Response[bytes]:
    """Hand out up to `count` ready tasks: highest priority first, then oldest, over all the queues.

    The states of each swap and its clock starts. If nothing is ready it waits for the first task for `wait` seconds;
    then an empty list is the answer. A client that hangs up claims nothing, or its tasks are released at once.
    """
    _, wanted = read(request, body, requests.Next)
    claim = wanted.to_claim(services(request).sizes)
    async with caller_of(request) as caller:
        entries = await services(request).claims.claim(claim, wanted.to_wait(), caller)
    reply = media_of_answer(request)
    return answer(reply, answers.Many([answers.view_entry(reply, entry) for entry in entries]))


@route(
    "POST",
    "/v1/tasks/heartbeat",
    operation_id="heartbeat_tasks",
    tag=_TAG,
    summary="Keep what a worker holds",
    takes=requests.Heartbeat,
    gives=answers.Beats,
    refuses=_BODY,
    examples=examples.HEARTBEAT,
)
async def heartbeat_tasks(request: AnyRequest, body: RawBody) -> Response[bytes]:
    """Extend the leases of all deliveries that a worker holds: a deadline becomes now and the length of its clock.

    Before half of a lease is over, the present one may be the answer. A delivery that is `lost` or `canceled` may
    write no more: stop working on it.
    """
    _, wanted = read(request, body, requests.Heartbeat)
    beats = await services(request).heartbeats.beat(wanted.to_holds(services(request).sizes))
    return answer(media_of_answer(request), answers.beats(beats))


@route(
    "GET",
    "/v1/tasks/{id}",
    operation_id="get_task",
    tag=_TAG,
    summary="Read a task",
    query=GetQuery,
    gives=answers.One,
    refuses=_READ,
    examples=examples.GET,
)
async def get_task(request: AnyRequest, task_id: FromPath[str]) -> Response[bytes]:
    """Read a task, live or archived; its payload and result if `include` names them."""
    wanted = read_query(request, GetQuery)
    entry = await services(request).reading.get(read_id(task_id), wanted.to_include())
    reply = media_of_answer(request)
    return answer(reply, answers.One(answers.view_entry(reply, entry)))


@route(
    "GET",
    "/v1/tasks",
    operation_id="list_tasks",
    tag=_TAG,
    summary="List tasks",
    query=ListQuery,
    gives=answers.Page,
    refuses=(HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE),
    examples=examples.LIST,
)
async def list_tasks(request: AnyRequest) -> Response[bytes]:
    """List live tasks, or with `archived=true` ended ones, by submit time and id.

    `next_cursor` leads to the next page under the same filters.
    """
    wanted = read_query(request, ListQuery)
    filters = wanted.to_filter()
    limit = wanted.to_limit(services(request).sizes)
    page = await services(request).reading.page(
        filters, decode_cursor(wanted.cursor, filters), limit, wanted.to_include()
    )
    reply = media_of_answer(request)
    tasks = [answers.view_entry(reply, entry) for entry in page.entries]
    return answer(reply, answers.Page(tasks, encode_cursor(page.following, filters)))


@route(
    "GET",
    "/v1/tasks/{id}/payload",
    operation_id="get_payload",
    tag=_TAG,
    summary="Read a task's payload alone",
    refuses=_READ,
)
async def get_payload(request: AnyRequest, task_id: FromPath[str]) -> Response[bytes]:
    """Give the payload byte for byte, with the content type that it was given with."""
    refuse_query(request)
    return _raw(await services(request).reading.content(read_id(task_id), "payload"))


@route(
    "GET",
    "/v1/tasks/{id}/result",
    operation_id="get_result",
    tag=_TAG,
    summary="Read a task's result alone",
    refuses=_READ,
)
async def get_result(request: AnyRequest, task_id: FromPath[str]) -> Response[bytes]:
    """Give the result byte for byte, with the content type that it was given with."""
    refuse_query(request)
    return _raw(await services(request).reading.content(read_id(task_id), "result"))


@route(
    "PATCH",
    "/v1/tasks/{id}",
    operation_id="update_task",
    tag=_TAG,
    summary="Update a task",
    takes=requests.Update,
    gives=answers.Changed,
    refuses=_WRITE,
    examples=examples.UPDATE,
)
async def update_task(request: AnyRequest, body: RawBody, task_id: FromPath[str]) -> Response[bytes]:
    """Move a task to `new_state`, where it is ready and nobody holds it; or write its progress.

    A held task is written with its `delivery`, any other with its `current_state`.
    """
    media, wanted = read(request, body, requests.Update)
    change = wanted.to_change(media, services(request).sizes)
    written = await services(request).tasks.update(read_id(task_id), wanted.to_match(), change)
    reply = media_of_answer(request)
    return answer(reply, answers.changed(reply, written))


@route(
    "POST",
    "/v1/tasks/{id}/complete",
    operation_id="complete_task",
    tag=_TAG,
    summary="Complete a task",
    takes=requests.Complete,
    gives=answers.Completed,
    refuses=_WRITE,
    examples=examples.COMPLETE,
)
async def complete_task(request: AnyRequest, body: RawBody, task_id: FromPath[str]) -> Response[bytes]:
    """Archive a task as completed, keep its result, and submit its next tasks, all in one transaction.

    The same request again is answered the same, and marked as replayed.
    """
    media, wanted = read(request, body, requests.Complete)
    sizes = services(request).sizes
    written = await services(request).tasks.complete(
        read_id(task_id), wanted.to_match(), wanted.to_result(media, sizes), wanted.to_next(media, sizes)
    )
    reply = media_of_answer(request)
    task = answers.view(reply, written.task)
    return answer(reply, answers.Completed(task, list(written.next_task_ids), written.replayed))


@route(
    "POST",
    "/v1/tasks/{id}/release",
    operation_id="release_task",
    tag=_TAG,
    summary="Give a held task back",
    takes=requests.Release,
    gives=answers.Changed,
    refuses=_WRITE,
    examples=examples.RELEASE,
)
async def release_task(request: AnyRequest, body: RawBody, task_id: FromPath[str]) -> Response[bytes]:
    """Give a held task back to the states it had when it was ready; at once, or after a delay."""
    _, wanted = read(request, body, requests.Release)
    written = await services(request).tasks.release(read_id(task_id), wanted.to_match(), wanted.to_delay())
    reply = media_of_answer(request)
    return answer(reply, answers.changed(reply, written))


@route(
    "POST",
    "/v1/tasks/{id}/cancel",
    operation_id="cancel_task",
    tag=_TAG,
    summary="Cancel a task",
    takes=requests.Cancel,
    needs_body=False,
    gives=answers.Changed,
    refuses=_WRITE,
    examples=examples.CANCEL,
)
async def cancel_task(request: AnyRequest, body: RawBody, task_id: FromPath[str]) -> Response[bytes]:
    """Archive a task as canceled, whoever holds it; the holder learns of it at its next write."""
    wanted = read_optional(request, body, requests.Cancel)
    written = await services(request).tasks.cancel(read_id(task_id), wanted.to_match())
    reply = media_of_answer(request)
    return answer(reply, answers.changed(reply, written))


def _raw(content: Content) -> Response[bytes]:
    headers = {
        # As a header, since the framework adds a charset of its own to the media types of text.
        "Content-Type": content.media_type,
        # What a submitter calls text/html must not run in the browser of whoever looks at it.
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return Response(content.data, headers=headers)


HANDLERS: list[HTTPRouteHandler] = [
    submit_task,
    submit_raw_task,
    claim_tasks,
    heartbeat_tasks,
    get_task,
    list_tasks,
    get_payload,
    get_result,
    update_task,
    complete_task,
    release_task,
    cancel_task,
]
