"""All calls of the API, in the order in which its document shows them."""

from litestar.handlers import HTTPRouteHandler

from corndog.api import batches, endings, health, jobs, queues, reads, submits, tasks, workers

HANDLERS: list[HTTPRouteHandler] = [
    *submits.HANDLERS,
    *batches.HANDLERS,
    *tasks.HANDLERS,
    *endings.HANDLERS,
    *reads.HANDLERS,
    *jobs.HANDLERS,
    *queues.HANDLERS,
    *workers.HANDLERS,
    *health.HANDLERS,
]
