"""How a handler is declared, and how it is served.

`@route` keeps beside the handler what the API's document says of it, so that the two can't drift apart. The framework
routes; each of its handlers gives the application that serves the call. So nothing is done for a request that the
handlers here don't need: they take a `Call` and give an `Answer`.
"""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Literal, TypeAlias, cast

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, HTTPDisconnectEvent, HTTPRequestEvent, Method, Receive, Scope, Send

from corndog.api import problems
from corndog.api.exchanges import Answer, Call
from corndog.api.services import Services
from corndog.domain.errors import Code, CorndogError, Invalid

Handler: TypeAlias = Callable[[Call], Awaitable[Answer]]

BODY = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""How calls with a body may be refused."""
WRITE = (*BODY, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
"""How calls that write what is there may be refused."""
ONCE = (*BODY, HTTPStatus.CONFLICT)
"""How calls that take an idempotency key may be refused."""
READ = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
"""How calls that read one thing may be refused."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What the API's document says of a call."""

    id: str
    tag: str
    summary: str
    method: Literal["GET", "POST", "PATCH"]
    path: str
    takes: type[msgspec.Struct] | None
    needs_body: bool
    takes_raw: bool
    takes_key: bool
    takes_preference: bool
    query: type[msgspec.Struct] | None
    gives: type[msgspec.Struct] | None
    status: HTTPStatus
    refuses: Sequence[HTTPStatus]
    examples: dict[str, Any]
    description: str


class Endpoint(msgspec.Struct, frozen=True):
    """A method of a path, what serves it, and what is said of it, if it is a call of the API."""

    method: str
    path: str
    handler: Handler
    operation: Operation | None = None


def route(
    method: Literal["GET", "POST", "PATCH"],
    path: str,
    *,
    operation_id: str,
    tag: str,
    summary: str,
    takes: type[msgspec.Struct] | None = None,
    needs_body: bool = True,
    takes_raw: bool = False,
    takes_key: bool = False,
    takes_preference: bool = False,
    query: type[msgspec.Struct] | None = None,
    gives: type[msgspec.Struct] | None = None,
    status: HTTPStatus = HTTPStatus.OK,
    refuses: Sequence[HTTPStatus] = (),
    examples: dict[str, Any] | None = None,
) -> Callable[[Handler], Endpoint]:
    """Declare a handler; its docstring becomes the call's description."""

    def declare(handler: Handler) -> Endpoint:
        operation = Operation(
            id=operation_id,
            tag=tag,
            summary=summary,
            method=method,
            path=path,
            takes=takes,
            needs_body=needs_body,
            takes_raw=takes_raw,
            takes_key=takes_key,
            takes_preference=takes_preference,
            query=query,
            gives=gives,
            status=status,
            refuses=refuses,
            examples=examples or {},
            description=" ".join((handler.__doc__ or "").split()),
        )
        return Endpoint(method, path, handler, operation)

    return declare


def serve(endpoints: Sequence[Endpoint], services: Services, body_max: int) -> list[HTTPRouteHandler]:
    """Make the framework's handlers; bodies have at most so many bytes."""
    methods: dict[str, set[str]] = {}
    for endpoint in endpoints:
        methods.setdefault(endpoint.path, {"OPTIONS"}).add(endpoint.method)
    # The framework's own handlers of OPTIONS know the first method of a path only.
    options = [Endpoint("OPTIONS", path, _tell(", ".join(sorted(allowed)))) for path, allowed in methods.items()]
    return [_serve(endpoint, services, body_max) for endpoint in [*options, *endpoints]]


def _tell(allowed: str) -> Handler:
    async def show(_call: Call) -> Answer:
        return Answer(b"", status=HTTPStatus.NO_CONTENT, headers={"Allow": allowed})

    return show


def _serve(endpoint: Endpoint, services: Services, body_max: int) -> HTTPRouteHandler:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await _read(scope, receive, body_max)
            answer = await endpoint.handler(Call(scope, receive, body, services))
        except CorndogError as error:
            answer = problems.refuse(error)
        await _send(send, answer)

    async def route_to() -> ASGIApp:
        return application

    return HTTPRouteHandler(endpoint.path.replace("{id}", "{id:str}"), http_method=cast("Method", endpoint.method))(
        route_to
    )


async def _send(send: Send, answer: Answer) -> None:
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
    if answer.status != HTTPStatus.NO_CONTENT:
        headers.append((b"content-type", answer.media_type.encode("latin-1")))
        headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})


async def _read(scope: Scope, receive: Receive, most: int) -> bytes:
    """Read a request's body.

    Raises:
        TooLarge: it has more bytes than allowed; it is not read to its end.
        Invalid: the client left before its end.

    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > most:
            raise problems.BodyTooLarge(most)
    parts: list[bytes] = []
    length = 0
    while True:
        message = cast("HTTPRequestEvent | HTTPDisconnectEvent", await receive())
        if message["type"] == "http.disconnect":
            # Nobody reads this answer.
            raise Invalid("the body was cut off", code=Code.MALFORMED)
        parts.append(message["body"])
        length += len(message["body"])
        if length > most:
            raise problems.BodyTooLarge(most)
        if not message["more_body"]:
            return parts[0] if len(parts) == 1 else b"".join(parts)
