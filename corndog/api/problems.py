"""The one map from what went wrong to what the client is told: `application/problem+json` (RFC 9457).

`code` is stable and meant for programs, `detail` for people. `field` names the part of the request that was wrong;
`task` says what is there where a write did not match it.
"""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException
from msgspec import Meta

from corndog.api.exchanges import Answer
from corndog.api.fields import UNGIVEN, Ungiven
from corndog.domain.errors import Code, Conflict, CorndogError, Invalid, NotFound, TooLarge, Unavailable
from corndog.domain.task import Phase, Task

logger = logging.getLogger(__name__)

PROBLEM_JSON = "application/problem+json"

UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
NO_SUCH_PATH = "no_such_path"
METHOD_NOT_ALLOWED = "method_not_allowed"
INTERNAL_ERROR = "internal_error"

_STATUS: dict[type[CorndogError], HTTPStatus] = {
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Invalid: HTTPStatus.BAD_REQUEST,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}
_CODE = {
    HTTPStatus.BAD_REQUEST: Code.MALFORMED,
    HTTPStatus.NOT_FOUND: NO_SUCH_PATH,
    HTTPStatus.METHOD_NOT_ALLOWED: METHOD_NOT_ALLOWED,
}


_FAULT = "the server failed; its log says more"


class Present(msgspec.Struct):
    """What a task that did not match is like."""

    id: UUID
    queue: str
    current_state: str
    phase: Phase
    delivery: int


class Wrong(msgspec.Struct):
    """One of several things that are wrong with a request."""

    field: str
    detail: str


class Problem(msgspec.Struct, kw_only=True):
    """Why a call was refused; nothing has changed."""

    type: str
    title: str
    status: int
    code: Annotated[str, Meta(description="Stable, for programs.")]
    detail: Annotated[str, Meta(description="For people.")]
    field: Annotated[str, Meta(description="The part of the request that was wrong.")] | Ungiven = UNGIVEN
    task: Annotated[Present, Meta(description="What is there instead.")] | Ungiven = UNGIVEN
    errors: (
        Annotated[list[Wrong], Meta(description="All that was wrong, where it is more than one thing.")] | Ungiven
    ) = UNGIVEN


class UnsupportedMediaType(CorndogError):
    """The body is in an encoding that this call does not take; `field` is the header that says so."""

    def __init__(self, field: str, given: str, rule: str) -> None:
        super().__init__(Code.MALFORMED, f"{field} {given!r} is not supported: {rule}", field=field)


class BodyTooLarge(TooLarge):
    """The request's body is larger than this server takes."""

    def __init__(self, limit: int) -> None:
        super().__init__("body", limit + 1, limit)

    def __str__(self) -> str:
        return f"the body is too large: {super().__str__().partition(', ')[2]}"


def refuse(error: CorndogError) -> Answer:
    """Answer a refusal by the rules or the store."""
    if isinstance(error, UnsupportedMediaType):
        return _answer(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, UNSUPPORTED_MEDIA_TYPE, str(error), field=error.field or UNGIVEN
        )
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, Unavailable) else {}
    return _write(problem_of(error), headers)


def problem_of(error: CorndogError) -> Problem:
    """Describe a refusal by the rules or the store."""
    return _problem(
        next(status for kind, status in _STATUS.items() if isinstance(error, kind)),
        error.code,
        str(error),
        field=error.field or UNGIVEN,
        task=_present(error.task) if isinstance(error, Conflict) and error.task else UNGIVEN,
        errors=_faults(error) if isinstance(error, Invalid) and error.faults else UNGIVEN,
    )


def problem_of_any(error: Exception) -> Problem:
    """Describe a refusal, or a fault of ours, of which the client learns nothing but that it is one."""
    if isinstance(error, CorndogError):
        return problem_of(error)
    logger.error("a part of a call failed", exc_info=error)
    return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR, _FAULT)


def refuse_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Answer what the framework refuses: unknown paths and methods."""
    status = HTTPStatus(error.status_code)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return fail(request, error)
    headers = dict(error.headers or {}) if isinstance(error, MethodNotAllowedException) else {}
    return _response(_answer(status, _CODE.get(status, Code.INVALID), error.detail or status.phrase, headers=headers))


def fail(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer a fault of ours, of which the client learns nothing but that it is one."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _response(_answer(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR, _FAULT))


def _response(answer: Answer) -> Response[bytes]:
    return Response(answer.body, status_code=answer.status, media_type=answer.media_type, headers=dict(answer.headers))


def title(status: HTTPStatus) -> str:
    """Name a status as RFC 9110 does; older Pythons know 413 by an older name."""
    return "Content Too Large" if status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE else status.phrase


def _answer(
    status: HTTPStatus,
    code: str,
    detail: str,
    *,
    field: str | Ungiven = UNGIVEN,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    return _write(_problem(status, code, detail, field=field), headers)


def _write(problem: Problem, headers: Mapping[str, str] | None) -> Answer:
    return Answer(msgspec.json.encode(problem), PROBLEM_JSON, problem.status, headers or {})


def _problem(
    status: HTTPStatus,
    code: str,
    detail: str,
    *,
    field: str | Ungiven = UNGIVEN,
    task: Present | Ungiven = UNGIVEN,
    errors: list[Wrong] | Ungiven = UNGIVEN,
) -> Problem:
    return Problem(
        type=f"urn:corndog:problem:{code}",
        title=title(status),
        status=status,
        code=code,
        detail=detail,
        field=field,
        task=task,
        errors=errors,
    )


def _faults(error: Invalid) -> list[Wrong]:
    return [Wrong(fault.field, fault.detail) for fault in error.faults]


def _present(task: Task) -> Present:
    return Present(task.id, task.queue, task.current_state, task.phase, task.delivery)
