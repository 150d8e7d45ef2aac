"""The calls that read tasks."""

from http import HTTPStatus

from corndog.api import examples
from corndog.api.answers.tasks import One, Page, Runs, view_entry, view_runs
from corndog.api.cursors import decode_cursor, encode_cursor
from corndog.api.exchanges import Answer, Call
from corndog.api.queries import GetQuery, ListQuery
from corndog.api.reading import answer, media_of_answer, read_id, read_query, refuse_query
from corndog.api.routing import READ, Endpoint, route
from corndog.domain.task import Content

_TAG = "Tasks"


@route(
    "GET",
    "/v1/tasks/{id}",
    operation_id="get_task",
    tag=_TAG,
    summary="Read a task",
    query=GetQuery,
    gives=One,
    refuses=READ,
    examples=examples.GET,
)
async def get_task(call: Call) -> Answer:
    """Read a task, live or archived; its payload and result if `include` names them."""
    wanted = read_query(call, GetQuery)
    entry = await call.services.reading.get(read_id(call), wanted.to_include())
    reply = media_of_answer(call)
    return answer(reply, One(view_entry(reply, entry)))


@route(
    "GET",
    "/v1/tasks",
    operation_id="list_tasks",
    tag=_TAG,
    summary="List tasks",
    query=ListQuery,
    gives=Page,
    refuses=(HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE),
    examples=examples.LIST,
)
async def list_tasks(call: Call) -> Answer:
    """List live tasks, or with `archived=true` ended ones, by submit time and id.

    `next_cursor` leads to the next page under the same filters.
    """
    wanted = read_query(call, ListQuery)
    filters = wanted.to_filter()
    limit = wanted.to_limit(call.services.terms)
    page = await call.services.reading.page(filters, decode_cursor(wanted.cursor, filters), limit, wanted.to_include())
    reply = media_of_answer(call)
    tasks = [view_entry(reply, entry) for entry in page.entries]
    return answer(reply, Page(tasks, encode_cursor(page.following, filters)))


@route(
    "GET",
    "/v1/tasks/{id}/payload",
    operation_id="get_payload",
    tag=_TAG,
    summary="Read a task's payload alone",
    refuses=READ,
)
async def get_payload(call: Call) -> Answer:
    """Give the payload byte for byte, with the content type that it was given with."""
    refuse_query(call)
    return _raw(await call.services.reading.content(read_id(call), "payload"))


@route(
    "GET",
    "/v1/tasks/{id}/result",
    operation_id="get_result",
    tag=_TAG,
    summary="Read a task's result alone",
    refuses=READ,
)
async def get_result(call: Call) -> Answer:
    """Give the result byte for byte, with the content type that it was given with."""
    refuse_query(call)
    return _raw(await call.services.reading.content(read_id(call), "result"))


@route(
    "GET",
    "/v1/tasks/{id}/runs",
    operation_id="get_runs",
    tag=_TAG,
    summary="Read a task's history",
    gives=Runs,
    refuses=READ,
    examples=examples.RUNS,
)
async def get_runs(call: Call) -> Answer:
    """List the deliveries of a task in their order, each with who had it, from when to when, and how it ended."""
    refuse_query(call)
    runs = await call.services.reading.runs(read_id(call))
    return answer(media_of_answer(call), view_runs(runs))


def _raw(content: Content) -> Answer:
    headers = {
        # What a submitter calls text/html must not run in the browser of whoever looks at it.
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return Answer(content.data, content.media_type, headers=headers)


HANDLERS: list[Endpoint] = [
    get_task,
    list_tasks,
    get_payload,
    get_result,
    get_runs,
]
