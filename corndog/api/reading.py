"""How handlers read their requests and write their answers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec
from litestar.datastructures import Accept

from corndog.api.exchanges import Answer, Call
from corndog.api.media import Media
from corndog.api.problems import UnsupportedMediaType
from corndog.api.queries import Query
from corndog.domain.errors import Code, Invalid
from corndog.lifetime import begun_after
from corndog.service.polls import Caller

_T = TypeVar("_T")

_PLACE = " - at `$"
_UNKNOWN = "Object contains unknown field `"
_MISSING = "Object missing required field `"
_SHOWN_MAX = 500
"""How much of what was sent a refusal shows, in characters."""
PREFER = "Prefer"
_APPLIED = {"Preference-Applied": "return=minimal"}

A_WHILE = 0.02
"""Seconds within which nobody hangs up."""

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


@contextmanager
def caller_of(call: Call) -> Iterator[Caller]:
    """Watch, if the block takes a while, whether the client hangs up meanwhile. The body has to be read before."""
    caller = Caller()

    async def watch() -> None:
        while (await call.receive())["type"] != "http.disconnect":
            pass
        caller.hang_up()

    with begun_after(A_WHILE, watch):
        yield caller


def media_of_answer(call: Call) -> Media:
    """Choose the encoding that the client likes better; JSON where it says nothing that can be followed."""
    accepted = call.header(b"accept")
    if "msgpack" not in accepted.lower():
        return Media.JSON
    try:
        return Media(Accept(accepted).best_match([Media.JSON, Media.MSGPACK], Media.JSON))
    except (ValueError, OverflowError):
        return Media.JSON


def media_of_body(call: Call) -> Media:
    """Tell the encoding of the body.

    Raises:
        UnsupportedMediaType: it is neither JSON nor MessagePack, or compressed.

    """
    refuse_compression(call)
    given = call.header(b"content-type")
    try:
        return Media(given.partition(";")[0].strip().lower())
    except ValueError:
        raise UnsupportedMediaType("Content-Type", _cut(given), "use application/json or application/msgpack") from None


def refuse_compression(call: Call) -> None:
    """Refuse a body that would be taken for what it is not.

    Raises:
        UnsupportedMediaType: the body is compressed.

    """
    coding = call.header(b"content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise UnsupportedMediaType("Content-Encoding", _cut(coding), "send the body uncompressed")


def refuse_query(call: Call) -> None:
    """Refuse parameters where a call takes none: whoever sends one expects it to do something.

    Raises:
        Invalid: there is one.

    """
    if call.query:
        read_query(call, Query)


def read(call: Call, wanted: type[_T]) -> tuple[Media, _T]:
    """Decode a body; one that may be left out is read as an empty object.

    Raises:
        Invalid: it is malformed, or not of the wanted form.
        UnsupportedMediaType: it is neither JSON nor MessagePack.

    """
    refuse_query(call)
    return read_body(call, wanted)


def read_body(call: Call, wanted: type[_T]) -> tuple[Media, _T]:
    """Decode a body whose call takes parameters, too; refuses as `read` does."""
    media = media_of_body(call)
    return media, decode(media, call.body, wanted)


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


def read_optional(call: Call, wanted: type[_T]) -> _T:
    """Decode a body that may be left out: no bytes are read as an empty object."""
    if call.body:
        return read(call, wanted)[1]
    refuse_query(call)
    return msgspec.convert({}, wanted)


def read_query(call: Call, wanted: type[_T]) -> _T:
    """Decode the query; a parameter that is given twice, or that is unknown, is refused.

    Raises:
        Invalid: it is malformed, or not of the wanted form.

    """
    text = call.query.decode("ascii", errors="surrogateescape")
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


def read_id(call: Call) -> UUID:
    """Read the id of a task or job from the path.

    Raises:
        Invalid: it is not a UUID.

    """
    text = call.parameters["id"]
    if not _UUID.fullmatch(text):
        raise Invalid("a UUID is expected", field="id")
    return UUID(text)


def answer(media: Media, content: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """Encode an answer."""
    return Answer(media.write(content), media, status)


def prefers_minimal(call: Call) -> bool:
    """Whether results are wanted without the tasks (RFC 7240, section 4.2)."""
    for header in call.headers(b"prefer"):
        for preference in header.lower().split(b","):
            name, _, value = preference.partition(b";")[0].partition(b"=")
            if name.strip() == b"return":
                # Of several, the first is the one that counts.
                return value.strip().strip(b'"') == b"minimal"
    return False


def answered(given: Answer, *, minimal: bool) -> Answer:
    """Say that the answer is as it was preferred."""
    return msgspec.structs.replace(given, headers=_APPLIED) if minimal else given


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
