"""Whether the server is alive, whether it takes work, and what it has measured."""

import asyncio
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from corndog.api import examples
from corndog.api.answers.health import Alive, Health
from corndog.api.exchanges import Answer, Call
from corndog.api.reading import answer, media_of_answer
from corndog.api.routing import Endpoint, route
from corndog.domain.errors import Unavailable

PATIENCE = 2.0
"""Seconds that the database gets to answer."""

_TAG = "Health"


@route(
    "GET",
    "/healthz",
    operation_id="get_health",
    tag=_TAG,
    summary="Ask whether it is alive",
    gives=Alive,
    examples=examples.HEALTH,
)
async def get_health(call: Call) -> Answer:
    """Answer 200 while the process is alive."""
    return answer(media_of_answer(call), Alive())


@route(
    "GET",
    "/readyz",
    operation_id="get_readiness",
    tag=_TAG,
    summary="Ask whether it takes work",
    gives=Health,
    examples=examples.READINESS,
)
async def get_readiness(call: Call) -> Answer:
    """Answer 200 while the database does, and 503 without it. Without Redis it is degraded: slower, and right."""
    status, checks, warnings = "ok", {}, []
    try:
        async with asyncio.timeout(PATIENCE):
            overdue = await call.services.reading.overdue()
        checks["database"] = "ok"
        if overdue is not None:
            warnings.append(
                f"a hold has been overdue for {overdue.total_seconds():.0f} s: nothing calls cleanup-timed-out"
            )
    except (Unavailable, TimeoutError):
        status, checks["database"] = "unavailable", "unavailable"
    for name, check in call.services.dispensable.items():
        try:
            await check()
            checks[name] = "ok"
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the server does without
            checks[name] = "unavailable"
            warnings.append(f"{name} is not used now ({error}): calls do without it, more slowly")
            status = "degraded" if status == "ok" else status
    code = HTTPStatus.SERVICE_UNAVAILABLE if status == "unavailable" else HTTPStatus.OK
    return answer(media_of_answer(call), Health(status, checks, warnings), code)


@route(
    "GET",
    "/metrics",
    operation_id="get_metrics",
    tag=_TAG,
    summary="Read what it has measured",
)
async def get_metrics(_call: Call) -> Answer:
    """Give the metrics of the process that answers, in Prometheus's text format."""
    return Answer(generate_latest(), CONTENT_TYPE_LATEST)


HANDLERS: list[Endpoint] = [get_health, get_readiness, get_metrics]
