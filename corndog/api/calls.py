"""All calls of the API, in the order in which its document shows them."""

from corndog.api import batches, claims, endings, health, jobs, queues, reads, submits, tasks, workers
from corndog.api.routing import Endpoint

HANDLERS: list[Endpoint] = [
    *submits.HANDLERS,
    *batches.HANDLERS,
    *claims.HANDLERS,
    *tasks.HANDLERS,
    *endings.HANDLERS,
    *reads.HANDLERS,
    *jobs.HANDLERS,
    *queues.HANDLERS,
    *workers.HANDLERS,
    *health.HANDLERS,
]
