"""What a handler gets and what it gives: one HTTP request, and one answer to it."""

from collections.abc import Iterable, Mapping

import msgspec
from litestar.types import Receive, Scope

from corndog.api.media import Media
from corndog.api.services import Services


class Call:
    """A request whose body has been read."""

    __slots__ = ("_headers", "body", "parameters", "query", "receive", "services")

    def __init__(self, scope: Scope, receive: Receive, body: bytes, services: Services) -> None:
        self.services = services
        self.body = body
        self.query: bytes = scope["query_string"]
        self.parameters: Mapping[str, str] = scope.get("path_params", {})
        self.receive = receive
        self._headers: Iterable[tuple[bytes, bytes]] = scope["headers"]

    def header(self, name: bytes, default: str = "") -> str:
        """Give the first header of a name, which is written in small letters."""
        for given, value in self._headers:
            if given == name:
                return value.decode("latin-1")
        return default

    def headers(self, name: bytes) -> list[bytes]:
        """Give all headers of a name."""
        return [value for given, value in self._headers if given == name]


class Answer(msgspec.Struct, frozen=True):
    """An answer, ready to be sent."""

    body: bytes
    media_type: str = Media.JSON
    status: int = 200
    headers: Mapping[str, str] = {}
