"""The two encodings of bodies, JSON and MessagePack, and how each carries bytes that are not to be touched.

In JSON a payload or result that was written as JSON stands in the document as it is, and any other as base64. In
MessagePack both are byte strings: `payload` holds the text of a JSON value, `payload_base64` any bytes.
"""

from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from corndog.domain.errors import Invalid

_T = TypeVar("_T")

OBJECT_DEPTH_MAX = 100
"""How deeply objects may be nested that are read in one encoding and written in the other."""


class Media(StrEnum):
    """The media types of bodies."""

    JSON = "application/json"
    MSGPACK = "application/msgpack"

    def parse(self, body: bytes, wanted: type[_T]) -> _T:
        """Decode a body strictly.

        Raises:
            msgspec.DecodeError: it is malformed, or not of the wanted form.
            UnicodeDecodeError: text in it is not UTF-8.
            RecursionError: it is nested too deeply.

        """
        if self is Media.MSGPACK:
            return msgspec.msgpack.decode(body, type=wanted)
        if not body.isascii():
            # Raw values are passed over undecoded; they must not smuggle anything but UTF-8 into an answer.
            body.decode()
        return msgspec.json.decode(body, type=wanted)

    def write(self, answer: object) -> bytes:
        """Encode an answer."""
        return msgspec.msgpack.encode(answer) if self is Media.MSGPACK else msgspec.json.encode(answer)

    def read_json(self, raw: msgspec.Raw, field: str) -> bytes:
        """Take a value that was given as JSON, as the bytes of its text.

        Raises:
            Invalid: in MessagePack, it is not a byte string that holds one JSON value.

        """
        if self is Media.JSON:
            return bytes(raw)
        try:
            text = msgspec.msgpack.decode(raw, type=bytes)
            text.decode()
            msgspec.json.decode(text, type=msgspec.Raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Invalid("a byte string that holds one JSON value is expected", field=field) from None
        return text

    def write_json(self, text: bytes) -> msgspec.Raw:
        """Give the text of a JSON value in the form that `read_json` takes."""
        return msgspec.Raw(text if self is Media.JSON else msgspec.msgpack.encode(text))

    def read_object(self, raw: msgspec.Raw, field: str) -> str:
        """Take an object as JSON text; as it was written, where it was written in JSON.

        Raises:
            Invalid: it is not an object, or one of the encodings can't express what is in it.

        """
        decode = msgspec.json.decode if self is Media.JSON else msgspec.msgpack.decode
        try:
            given = decode(raw, type=dict[str, Any])
            _check_depth(given, OBJECT_DEPTH_MAX, field)
            text = bytes(raw) if self is Media.JSON else msgspec.json.encode(given)
            # Whoever reads it may ask for either encoding: MessagePack's integers end at 64 bits, JSON has no NaN.
            is_whole = msgspec.json.decode(text) == msgspec.msgpack.decode(msgspec.msgpack.encode(given))
        except (msgspec.DecodeError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise Invalid(f"an object is expected: {error}", field=field) from None
        if not is_whole:
            raise Invalid("it has a value that JSON can't express", field=field)
        return text.decode()

    def write_object(self, text: str) -> msgspec.Raw:
        """Give the text of a JSON object in this encoding."""
        if self is Media.JSON:
            return msgspec.Raw(text.encode())
        return msgspec.Raw(msgspec.msgpack.encode(msgspec.json.decode(text)))


def _check_depth(value: object, most: int, field: str) -> None:
    """Refuse what is nested more deeply than every decoder, here and at clients, can be relied on to follow."""
    if not isinstance(value, (dict, list)):
        return
    if not most:
        raise Invalid(f"at most {OBJECT_DEPTH_MAX} levels of nesting are allowed", field=field)
    for part in value.values() if isinstance(value, dict) else value:
        _check_depth(part, most - 1, field)
