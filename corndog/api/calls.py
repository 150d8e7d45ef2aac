"""All calls of the API, in the order in which its document shows them."""

from litestar.handlers import HTTPRouteHandler

from corndog.api import endings, health, queues, reads, submits, tasks

HANDLERS: list[HTTPRouteHandler] = [
    *submits.HANDLERS,
    *tasks.HANDLERS,
    *endings.HANDLERS,
    *reads.HANDLERS,
    *queues.HANDLERS,
    *health.HANDLERS,
]
