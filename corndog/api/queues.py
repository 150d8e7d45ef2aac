"""The calls about all tasks of a queue: counts, and the sweep of timed-out ones."""

from http import HTTPStatus

from corndog.api import examples
from corndog.api.answers.queues import (
    CleanedUp,
    QueueAndStateCounts,
    QueueCounts,
    Queues,
    StateCounts,
    by_queue,
    state_counts,
)
from corndog.api.exchanges import Answer, Call
from corndog.api.queries import Query, QueueQuery
from corndog.api.reading import answer, media_of_answer, read_optional, read_query
from corndog.api.requests.tasks import CleanUp
from corndog.api.routing import Endpoint, route
from corndog.domain.limits import check_name, instant

_TAG = "Queues"
_READ = (HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE)


@route(
    "POST",
    "/v1/cleanup-timed-out",
    operation_id="clean_up_timed_out",
    tag=_TAG,
    summary="Time out tasks",
    takes=CleanUp,
    needs_body=False,
    gives=CleanedUp,
    refuses=(*_READ, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    examples=examples.CLEAN_UP,
)
async def clean_up_timed_out(call: Call) -> Answer:
    """Swap back every task whose clock ends by `at_time`. Tasks claimed after the call began are left alone."""
    wanted = read_optional(call, CleanUp)
    check_name(wanted.queue, "queue")
    count = await call.services.clocks.clean_up(instant(wanted.at_time, "at_time"), wanted.queue)
    return answer(media_of_answer(call), CleanedUp(count))


@route(
    "GET",
    "/v1/queues",
    operation_id="get_queues",
    tag=_TAG,
    summary="List the queues",
    gives=Queues,
    refuses=_READ,
    examples=examples.QUEUES,
)
async def get_queues(call: Call) -> Answer:
    """List the queues that have live tasks, and count those tasks."""
    read_query(call, Query)
    counts = await call.services.reading.counts()
    total = sum(count for _, _, count in counts)
    return answer(media_of_answer(call), Queues(list(by_queue(counts)), total))


@route(
    "GET",
    "/v1/queues/task-counts",
    operation_id="get_queue_task_counts",
    tag=_TAG,
    summary="Count tasks by queue",
    gives=QueueCounts,
    refuses=_READ,
    examples=examples.QUEUE_COUNTS,
)
async def get_queue_task_counts(call: Call) -> Answer:
    """Count the live tasks of each queue."""
    read_query(call, Query)
    queues = by_queue(await call.services.reading.counts())
    counts = {queue: states.count for queue, states in queues.items()}
    return answer(media_of_answer(call), QueueCounts(counts, sum(counts.values())))


@route(
    "GET",
    "/v1/queues/state-counts",
    operation_id="get_queue_and_state_counts",
    tag=_TAG,
    summary="Count tasks by queue and state",
    gives=QueueAndStateCounts,
    refuses=_READ,
    examples=examples.QUEUE_AND_STATE_COUNTS,
)
async def get_queue_and_state_counts(call: Call) -> Answer:
    """Count the live tasks of each queue in each state."""
    read_query(call, Query)
    queues = by_queue(await call.services.reading.counts())
    return answer(media_of_answer(call), QueueAndStateCounts(queues))


@route(
    "GET",
    "/v1/state-counts",
    operation_id="get_task_state_counts",
    tag=_TAG,
    summary="Count a queue's tasks by state",
    query=QueueQuery,
    gives=StateCounts,
    refuses=_READ,
    examples=examples.STATE_COUNTS,
)
async def get_task_state_counts(call: Call) -> Answer:
    """Count the live tasks of one queue in each state; a queue without any has a count of 0."""
    queue = read_query(call, QueueQuery).to_queue()
    counts = await call.services.reading.counts(queue)
    return answer(media_of_answer(call), state_counts(queue, counts))


HANDLERS: list[Endpoint] = [
    clean_up_timed_out,
    get_queues,
    get_queue_task_counts,
    get_queue_and_state_counts,
    get_task_state_counts,
]
