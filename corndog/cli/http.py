"""Calls of a server's API."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

import httpx
import msgspec
import typer

from corndog.cli.output import Failed, show_json

_T = TypeVar("_T")

DEFAULT_SERVER = "http://127.0.0.1:8080"
PATIENCE = 60.0  # seconds
PROBLEM_JSON = "application/problem+json"

Server = Annotated[str, typer.Option(metavar="URL", help="Where the server is.")]


class Wrong(msgspec.Struct):
    """One of several things that are wrong with a call."""

    field: str
    detail: str


class Problem(msgspec.Struct):
    """What a server says of a call that it refuses."""

    code: str
    detail: str
    field: str | None = None
    errors: list[Wrong] = []

    def __str__(self) -> str:
        """Give the reason in a line, and the field, if one is wrong, in a second; or a line for each of several."""
        if len(self.errors) > 1:
            told = [f"{error.field}: {error.detail}" for error in self.errors]
            return "\n".join((f"{self.detail} ({self.code})", *told))
        return f"{self.detail} ({self.code})" + (f"\nfield: {self.field}" if self.field else "")


def call(
    method: str,
    server: str,
    path: str,
    body: Mapping[str, object] | bytes | None = None,
    params: Mapping[str, str | None] | None = None,
    *,
    as_json: bool = False,
    wait: float = 0,
) -> bytes:
    """Make one call and give the text of the answer; fields and parameters that are None are left out.

    A body that is bytes is sent as it is. `wait` is how many seconds more than usual the answer may take.

    Raises:
        Failed: the server refused, or did not answer; with `as_json` its problem document is printed first.
        typer.BadParameter: there can be no server at this address.

    """
    try:
        answer = httpx.request(
            method,
            server.rstrip("/") + path,
            params={name: value for name, value in (params or {}).items() if value is not None},
            content=_encoded(body),
            headers=None if body is None else {"Content-Type": "application/json"},
            timeout=PATIENCE + wait,
        )
    except UnicodeEncodeError as error:
        raise typer.BadParameter(f"a value can't be sent: {error}") from None
    except (httpx.UnsupportedProtocol, httpx.InvalidURL):
        raise typer.BadParameter(
            f"{server!r} is not an address such as {DEFAULT_SERVER}", param_hint="--server"
        ) from None
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        raise Failed(f"no answer from {server}: {reason}; is the server running there?") from None
    if answer.is_error:
        if as_json and answer.headers.get("content-type") == PROBLEM_JSON:
            show_json(answer.content)
        raise Failed(_reason(answer))
    if not answer.headers.get("content-type", "").startswith("application/json"):
        raise Failed(f"{server} is not a corndog server: it answered {answer.status_code} without JSON")
    return answer.content


def read(answer: bytes, kind: type[_T]) -> _T:
    """Take from an answer what is shown to people.

    Raises:
        Failed: it is not there.

    """
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError as error:
        raise Failed(f"the answer is not that of a corndog server of this version: {error}") from None


def _encoded(body: Mapping[str, object] | bytes | None) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return msgspec.json.encode({name: value for name, value in body.items() if value is not None})


def _reason(answer: httpx.Response) -> str:
    try:
        return str(msgspec.json.decode(answer.content, type=Problem))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"{answer.request.url} answered {answer.status_code} {answer.reason_phrase}"
