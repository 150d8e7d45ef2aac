"""How a handler is declared, and how it reads its request and writes its answer.

`@route` keeps beside the handler what the API's document says of it, so that the two can't drift apart.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler

from corndog.api.media import Media
from corndog.api.problems import UnsupportedMediaType
from corndog.api.services import Services
from corndog.domain.errors import Code, Invalid

_T = TypeVar("_T")
AnyRequest: TypeAlias = Request[Any, Any, Any]
Handler: TypeAlias = Callable[..., Awaitable[Response[Any]]]

_AT = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`$", re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


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
    query: type[msgspec.Struct] | None
    gives: type[msgspec.Struct] | None
    status: HTTPStatus
    refuses: Sequence[HTTPStatus]
    examples: dict[str, Any]
    description: str


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
    query: type[msgspec.Struct] | None = None,
    gives: type[msgspec.Struct] | None = None,
    status: HTTPStatus = HTTPStatus.OK,
    refuses: Sequence[HTTPStatus] = (),
    examples: dict[str, Any] | None = None,
) -> Callable[[Handler], HTTPRouteHandler]:
    """Declare a handler; its docstring becomes the call's description."""

    def declare(handler: Handler) -> HTTPRouteHandler:
        operation = Operation(
            id=operation_id,
            tag=tag,
            summary=summary,
            method=method,
            path=path,
            takes=takes,
            needs_body=needs_body,
            takes_raw=takes_raw,
            query=query,
            gives=gives,
            status=status,
            refuses=refuses,
            examples=examples or {},
            description=" ".join((handler.__doc__ or "").split()),
        )
        decorate = HTTPRouteHandler(
            path.replace("{id}", "{task_id:str}"), http_method=method, status_code=status, opt={"operation": operation}
        )
        return decorate(handler)

    return declare


def services(request: AnyRequest) -> Services:
    """Give the use cases of the application that serves this request."""
    found: Services = request.app.state.services
    return found


def media_of_answer(request: AnyRequest) -> Media:
    """Choose MessagePack where the client accepts it, else JSON."""
    return Media.MSGPACK if Media.MSGPACK in request.headers.get("accept", "") else Media.JSON


def media_of_body(request: AnyRequest) -> Media:
    """Tell the encoding of the body.

    Raises:
        UnsupportedMediaType: it is neither JSON nor MessagePack.

    """
    given = request.headers.get("content-type", "")
    try:
        return Media(given.partition(";")[0].strip().lower())
    except ValueError:
        raise UnsupportedMediaType(given) from None


def read(request: AnyRequest, body: bytes, wanted: type[_T]) -> tuple[Media, _T]:
    """Decode a body; one that may be left out is read as an empty object.

    Raises:
        Invalid: it is malformed, or not of the wanted form.
        UnsupportedMediaType: it is neither JSON nor MessagePack.

    """
    media = media_of_body(request)
    try:
        return media, media.parse(body, wanted)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except msgspec.DecodeError as error:
        raise Invalid(_malformed(error, body), code=Code.MALFORMED) from None
    except UnicodeDecodeError as error:
        raise Invalid(f"the body is not UTF-8 (byte {error.start})", code=Code.MALFORMED) from None
    except RecursionError:
        raise Invalid("the body is nested too deeply", code=Code.MALFORMED) from None


def read_optional(request: AnyRequest, body: bytes, wanted: type[_T]) -> _T:
    """Decode a body that may be left out: no bytes are read as an empty object."""
    return read(request, body, wanted)[1] if body else msgspec.convert({}, wanted)


def read_query(request: AnyRequest, wanted: type[_T]) -> _T:
    """Decode the query; a parameter that is given twice, or that is unknown, is refused.

    Raises:
        Invalid: it is malformed, or not of the wanted form.

    """
    try:
        pairs = parse_qsl(
            request.scope["query_string"].decode("ascii"), keep_blank_values=True, strict_parsing=False, errors="strict"
        )
    except (UnicodeDecodeError, ValueError):
        raise Invalid("the query is not percent-encoded UTF-8") from None
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given:
            raise Invalid("given more than once", field=name)
        given[name] = value
    try:
        return msgspec.convert(given, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


def read_id(text: str) -> UUID:
    """Read a task's id from the path.

    Raises:
        Invalid: it is not a UUID.

    """
    if not _UUID.fullmatch(text):
        raise Invalid("a UUID is expected", field="id")
    return UUID(text)


def answer(media: Media, content: object, status: HTTPStatus = HTTPStatus.OK) -> Response[bytes]:
    """Encode an answer."""
    return Response(media.write(content), status_code=status, media_type=media)


def _invalid(error: msgspec.ValidationError) -> Invalid:
    """Turn the decoder's words into a field and a rule."""
    message = str(error)
    at = _AT.search(message)
    path = at.group(1) if at else ""
    rule = message[: at.start()] if at else message
    if found := _UNKNOWN.search(rule):
        return Invalid("there is no such field", field=_join(path, found.group(1)), code=Code.UNKNOWN_FIELD)
    if found := _MISSING.search(rule):
        return Invalid("required", field=_join(path, found.group(1)))
    return Invalid(rule, field=path or None)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _malformed(error: msgspec.DecodeError, body: bytes) -> str:
    if not body:
        return "a body is required"
    message = str(error)
    # The decoder says the same of a document that ends early and of a string whose surrogate stands alone.
    return "the body is cut off, or has an unpaired surrogate escape" if "truncated" in message else message
