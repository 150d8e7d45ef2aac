"""The calls about jobs."""

from http import HTTPStatus

from corndog.api import examples
from corndog.api.answers.jobs import (
    JobPage,
    JobSubmitted,
    OneJob,
    WholeJob,
    view_changed,
    view_graph,
    view_job,
    view_submitted_job,
)
from corndog.api.cursors import decode_cursor, encode_cursor
from corndog.api.exchanges import Answer, Call
from corndog.api.keys import read_key
from corndog.api.queries import JobListQuery, JobQuery
from corndog.api.reading import answer, media_of_answer, read, read_id, read_optional, read_query
from corndog.api.requests.jobs import EndJob, SubmitJob
from corndog.api.routing import ONCE, READ, WRITE, Endpoint, route
from corndog.domain.keys import Key
from corndog.domain.listing import LAST_ID, LATEST, Place
from corndog.service.requests import hash_of

_TAG = "Jobs"


@route(
    "POST",
    "/v1/jobs",
    operation_id="submit_job",
    tag=_TAG,
    summary="Submit a job",
    takes=SubmitJob,
    takes_key=True,
    gives=JobSubmitted,
    status=HTTPStatus.CREATED,
    refuses=ONCE,
    examples=examples.SUBMIT_JOB,
)
async def submit_job(call: Call) -> Answer:
    """Make a set of tasks that may wait for each other, in one transaction.

    Tasks that depend on nothing are ready; the others are parked as `<state>-blocked`, until the last of those that
    they depend on is completed. All that is wrong with a job is told at once, in `errors`, and nothing is made. Under
    an idempotency key the same request makes it once.
    """
    media, wanted = read(call, SubmitJob)
    text = read_key(call, wanted.idempotency_key)
    asked = wanted.to_job(media, call.services.terms)
    key = None if text is None else Key(text, hash_of("job", asked.compared))
    submitted = await call.services.jobs.submit(asked.new, key)
    reply = media_of_answer(call)
    return answer(reply, view_submitted_job(reply, submitted), HTTPStatus.CREATED)


@route(
    "GET",
    "/v1/jobs",
    operation_id="list_jobs",
    tag=_TAG,
    summary="List jobs",
    query=JobListQuery,
    gives=JobPage,
    refuses=(HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE),
    examples=examples.LIST_JOBS,
)
async def list_jobs(call: Call) -> Answer:
    """List jobs, the newest first.

    The status shown is what a job's tasks say; the one filtered by follows it, within a second as a rule.
    """
    wanted = read_query(call, JobListQuery)
    filters = wanted.to_filter()
    before = decode_cursor(wanted.cursor, filters) if wanted.cursor else Place(LATEST, LAST_ID)
    page = await call.services.jobs.page(filters, before, wanted.to_limit(call.services.terms))
    reply = media_of_answer(call)
    return answer(reply, JobPage([view_job(reply, job) for job in page.jobs], encode_cursor(page.following, filters)))


@route(
    "GET",
    "/v1/jobs/{id}",
    operation_id="get_job",
    tag=_TAG,
    summary="Read a job",
    query=JobQuery,
    gives=WholeJob,
    refuses=READ,
    examples=examples.GET_JOB,
)
async def get_job(call: Call) -> Answer:
    """Read a job with all its tasks, live and archived, and what each depends on; its status is what they say."""
    wanted = read_query(call, JobQuery)
    graph = await call.services.jobs.get(read_id(call))
    reply = media_of_answer(call)
    return answer(reply, view_graph(reply, graph, with_tasks=wanted.tasks))


@route(
    "POST",
    "/v1/jobs/{id}/cancel",
    operation_id="cancel_job",
    tag=_TAG,
    summary="Cancel a job",
    takes=EndJob,
    needs_body=False,
    gives=OneJob,
    refuses=WRITE,
    examples=examples.CANCEL_JOB,
)
async def cancel_job(call: Call) -> Answer:
    """Archive all live tasks of a job as canceled, whoever holds them."""
    read_optional(call, EndJob)
    changed = await call.services.jobs.cancel(read_id(call))
    reply = media_of_answer(call)
    return answer(reply, view_changed(reply, changed))


@route(
    "POST",
    "/v1/jobs/{id}/revive",
    operation_id="revive_job",
    tag=_TAG,
    summary="Revive a job",
    takes=EndJob,
    needs_body=False,
    gives=OneJob,
    refuses=WRITE,
    examples=examples.REVIVE_JOB,
)
async def revive_job(call: Call) -> Answer:
    """Revive the failed tasks of a job and all that their ends, or the job's own, has canceled.

    Tasks that were canceled one by one stay so, and with them what depends on them.
    """
    read_optional(call, EndJob)
    changed = await call.services.jobs.revive(read_id(call))
    reply = media_of_answer(call)
    return answer(reply, view_changed(reply, changed))


HANDLERS: list[Endpoint] = [submit_job, list_jobs, get_job, cancel_job, revive_job]
