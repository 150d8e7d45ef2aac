"""The calls about the fleet: who works, on what, and who is to end."""

from http import HTTPStatus

from corndog.api import examples
from corndog.api.answers.workers import Drained, Fleet, view_workers
from corndog.api.cursors import decode_name_cursor, encode_cursor
from corndog.api.exchanges import Answer, Call
from corndog.api.queries import WorkersQuery
from corndog.api.reading import answer, media_of_answer, read, read_query
from corndog.api.requests.workers import Drain
from corndog.api.routing import BODY, Endpoint, route

_TAG = "Workers"


@route(
    "GET",
    "/v1/workers",
    operation_id="list_workers",
    tag=_TAG,
    summary="List workers",
    query=WorkersQuery,
    gives=Fleet,
    refuses=(HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE),
    examples=examples.WORKERS,
)
async def list_workers(call: Call) -> Answer:
    """List all workers that send heartbeats or hold tasks, by name, each with what it holds.

    With `active_since` only those seen within that time. `next_cursor` leads to the next page under the same filter.
    """
    wanted = read_query(call, WorkersQuery)
    filters = wanted.to_filter()
    limit = wanted.to_limit(call.services.terms)
    page = await call.services.workers.page(filters, decode_name_cursor(wanted.cursor, filters), limit)
    reply = media_of_answer(call)
    return answer(reply, Fleet(view_workers(reply, page.workers), encode_cursor(page.following, filters)))


@route(
    "POST",
    "/v1/workers/drain",
    operation_id="drain_workers",
    tag=_TAG,
    summary="Drain workers",
    takes=Drain,
    gives=Drained,
    refuses=BODY,
    examples=examples.DRAIN,
)
async def drain_workers(call: Call) -> Answer:
    """Have workers told by their heartbeats, until it is taken back, to take no more tasks and to end."""
    _, wanted = read(call, Drain)
    ids = wanted.to_ids(call.services.terms)
    workers = call.services.workers
    drained = await (workers.drain_all(drains=wanted.drain) if ids is None else workers.drain(ids, drains=wanted.drain))
    return answer(media_of_answer(call), Drained(list(drained.marked), list(drained.unknown)))


HANDLERS: list[Endpoint] = [
    list_workers,
    drain_workers,
]
