"""How a handler is declared, and how it reads its request and writes its answer.

`@route` keeps beside the handler what the API's document says of it, so that the two can't drift apart.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler

from corndog.api.media import Media
from corndog.api.problems import UnsupportedMediaType
from corndog.api.queries import Query
from corndog.api.services import Services
from corndog.domain.errors import Code, Invalid
from corndog.lifetime import in_background
from corndog.service.polls import Caller

_T = TypeVar("_T")
AnyRequest: TypeAlias = Request[Any, Any, Any]
Handler: TypeAlias = Callable[..., Awaitable[Response[Any]]]

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

_PLACE = " - at `$"
_UNKNOWN = "Object contains unknown field `"
_MISSING = "Object missing required field `"
_SHOWN_MAX = 500
"""How much of what was sent a refusal shows, in characters."""
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
    takes_key: bool
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
    takes_key: bool = False,
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
            takes_key=takes_key,
            query=query,
            gives=gives,
            status=status,
            refuses=refuses,
            examples=examples or {},
            description=" ".join((handler.__doc__ or "").split()),
        )
        name = "job_id" if path.startswith("/v1/jobs/") else "task_id"
        decorate = HTTPRouteHandler(
            path.replace("{id}", f"{{{name}:str}}"),
            http_method=method,
            status_code=status,
            opt={"operation": operation},
        )
        return decorate(handler)

    return declare


def options(handlers: Sequence[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
    """Make handlers of OPTIONS that know all methods of their path: the framework's own know the first one only."""
    methods: dict[str, set[str]] = {}
    for handler in handlers:
        for path in handler.paths:
            methods.setdefault(path, {"OPTIONS"}).update(handler.http_methods)
    return [_options(path, ", ".join(sorted(allowed))) for path, allowed in methods.items()]


def _options(path: str, allowed: str) -> HTTPRouteHandler:
    def show() -> Response[None]:
        return Response(None, headers={"Allow": allowed})

    decorate = HTTPRouteHandler(path, http_method="OPTIONS", status_code=HTTPStatus.NO_CONTENT, sync_to_thread=False)
    return decorate(show)


def services(request: AnyRequest) -> Services:
    """Give the use cases of the application that serves this request."""
    found: Services = request.app.state.services
    return found


@asynccontextmanager
async def caller_of(request: AnyRequest) -> AsyncIterator[Caller]:
    """Watch, for as long as the block runs, whether the client hangs up. The body has to be read before."""
    caller = Caller()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        caller.hang_up()

    async with in_background(watch()):
        yield caller


def media_of_answer(request: AnyRequest) -> Media:
    """Choose the encoding that the client likes better; JSON where it says nothing that can be followed."""
    if "msgpack" not in request.headers.get("accept", "").lower():
        return Media.JSON
    try:
        return Media(request.accept.best_match([Media.JSON, Media.MSGPACK], Media.JSON))
    except (ValueError, OverflowError):
        return Media.JSON


def media_of_body(request: AnyRequest) -> Media:
    """Tell the encoding of the body.

    Raises:
        UnsupportedMediaType: it is neither JSON nor MessagePack, or compressed.

    """
    refuse_compression(request)
    given = request.headers.get("content-type", "")
    try:
        return Media(given.partition(";")[0].strip().lower())
    except ValueError:
        raise UnsupportedMediaType("Content-Type", _cut(given), "use application/json or application/msgpack") from None


def refuse_compression(request: AnyRequest) -> None:
    """Refuse a body that would be taken for what it is not.

    Raises:
        UnsupportedMediaType: the body is compressed.

    """
    coding = request.headers.get("content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise UnsupportedMediaType("Content-Encoding", _cut(coding), "send the body uncompressed")


def refuse_query(request: AnyRequest) -> None:
    """Refuse parameters where a call takes none: whoever sends one expects it to do something.

    Raises:
        Invalid: there is one.

    """
    if request.scope["query_string"]:
        read_query(request, Query)


def read(request: AnyRequest, body: bytes, wanted: type[_T]) -> tuple[Media, _T]:
    """Decode a body; one that may be left out is read as an empty object.

    Raises:
        Invalid: it is malformed, or not of the wanted form.
        UnsupportedMediaType: it is neither JSON nor MessagePack.

    """
    refuse_query(request)
    return read_body(request, body, wanted)


def read_body(request: AnyRequest, body: bytes, wanted: type[_T]) -> tuple[Media, _T]:
    """Decode a body whose call takes parameters, too; refuses as `read` does."""
    media = media_of_body(request)
    return media, decode(media, body, wanted)


def decode(media: Media, body: bytes, wanted: type[_T]) -> _T:
    """Decode a body, or a part of one that is to be refused by itself.

    Raises:
        Invalid: it is malformed, or not of the wanted form.

    """
    try:
        return media.parse(body, wanted)
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
    if body:
        return read(request, body, wanted)[1]
    refuse_query(request)
    return msgspec.convert({}, wanted)


def read_query(request: AnyRequest, wanted: type[_T]) -> _T:
    """Decode the query; a parameter that is given twice, or that is unknown, is refused.

    Raises:
        Invalid: it is malformed, or not of the wanted form.

    """
    text = request.scope["query_string"].decode("ascii", errors="surrogateescape")
    given: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, errors="surrogateescape"):
        if not _is_unicode(name) or not _is_unicode(value):
            raise Invalid("percent-encoded UTF-8 is expected", field=_cut(name) if _is_unicode(name) else None)
        if name in given:
            raise Invalid("given more than once", field=_cut(name))
        given[name] = value
    try:
        query = msgspec.convert(given, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    for name, value in given.items():
        # The conversion also takes the text "null" for none, which is worth saying only where something is the default.
        if value.lower() == "null" and getattr(query, name) is None and getattr(wanted(), name) is None:
            raise Invalid("a value is expected; for none, leave it out", field=name)
    return query


def _is_unicode(text: str) -> bool:
    """Whether a text has no surrogates, which stand for bytes that could not be decoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_id(text: str) -> UUID:
    """Read the id of a task or job from the path.

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
    """Turn the decoder's words into a field and a rule, in one pass: they can hold a name as long as the body."""
    rule, found, place = str(error).rpartition(_PLACE)
    if not found:
        rule, place = place, ""
    path = place.removesuffix("`").removeprefix(".")
    if rule.startswith(_UNKNOWN):
        return Invalid("there is no such field", field=_name(path, rule, _UNKNOWN), code=Code.UNKNOWN_FIELD)
    if rule.startswith(_MISSING):
        return Invalid("required", field=_name(path, rule, _MISSING))
    return Invalid(_cut(rule), field=_cut(path) or None)


def _name(path: str, rule: str, before: str) -> str:
    name = _cut(rule.removeprefix(before).removesuffix("`"))
    return f"{_cut(path)}.{name}" if path else name


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _malformed(error: msgspec.DecodeError, body: bytes) -> str:
    if not body:
        return "a body is required"
    message = str(error)
    # The decoder says the same of a document that ends early and of a string whose surrogate stands alone.
    return "the body is cut off, or has an unpaired surrogate escape" if "truncated" in message else message
