"""HTTP as a load generator needs it: prepared requests, kept connections, and no more of an answer than its body.

A callback of a protocol costs less of the core that is shared with the server than a task and a stream would.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from corndog.bench.errors import BenchError, RefusedError

_T = TypeVar("_T")

MINIMAL = "Prefer: return=minimal\r\n"
"""The header that asks for short answers."""

PATIENCE = 10  # seconds until a connection is there
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STATUS = slice(9, 12)
_SHOWN = 300


class Request(NamedTuple):
    """A request of JSON."""

    method: str
    path: str
    body: bytes = b""
    headers: str = ""


class Address(msgspec.Struct, frozen=True):
    """Where a server is."""

    host: str
    port: int
    prefix: str = ""
    secure: bool = False

    @classmethod
    def of(cls, url: str) -> "Address":
        """Read a URL.

        Raises:
            ValueError: it is not one of HTTP.

        """
        try:
            parts = urlsplit(url)
            secure = parts.scheme == "https"
            port = parts.port or (443 if secure else 80)
        except ValueError:
            parts, secure, port = urlsplit(""), False, 0
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is not an address such as http://127.0.0.1:8080")
        return cls(parts.hostname, port, parts.path.rstrip("/"), secure)

    @property
    def url(self) -> str:
        """The URL again."""
        return f"{'https' if self.secure else 'http'}://{self._authority}{self.prefix}"

    @property
    def _authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def prepare(self, request: Request) -> bytes:
        """Give all bytes that are sent for a request."""
        head = (
            f"{request.method} {self.prefix}{request.path} HTTP/1.1\r\nHost: {self._authority}\r\n"
            f"Content-Type: application/json\r\n{request.headers}Content-Length: {len(request.body)}\r\n\r\n"
        )
        return head.encode() + request.body


class Line(asyncio.Protocol):
    """A kept connection, with one request on its way at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._transport: asyncio.WriteTransport | None = None
        self._asked = b""
        self._received = bytearray()
        self._expected = 0
        self._take: Callable[[bytes], None] = _nobody_asked
        self._fail: Callable[[BenchError], None] = _nobody_asked

    @classmethod
    async def to(cls, address: Address) -> "Line":
        """Connect.

        Raises:
            BenchError: nobody answers there.

        """
        context = ssl.create_default_context() if address.secure else None
        try:
            async with asyncio.timeout(PATIENCE):
                _, line = await asyncio.get_running_loop().create_connection(
                    lambda: cls(address), address.host, address.port, ssl=context
                )
        except OSError as error:  # a timeout is one
            reason = error.strerror or str(error) or "it takes too long"
            raise BenchError(f"no answer from {address.url}: {reason}; is the server running there?") from None
        return line

    async def send(self, request: Request) -> bytes:
        """Send a request and give the body of its answer.

        Raises:
            RefusedError: it is no success.
            BenchError: the connection ended.

        """
        return await self.ask(self._address.prepare(request))

    def ask(self, prepared: bytes) -> asyncio.Future[bytes]:
        """Send a prepared request."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.start(prepared, lambda body: _settle(answer, body), lambda error: _break(answer, error))
        return answer

    def pump(self, requests: Iterator[bytes], keep: Callable[[bytes], None]) -> asyncio.Future[None]:
        """Send one request after the other, as fast as they are answered, until there are none left."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def take(body: bytes) -> None:
            keep(body)
            go()

        def go() -> None:
            if (prepared := next(requests, None)) is None:
                _settle(done, None)
            else:
                self.start(prepared, take, fail)

        def fail(error: BenchError) -> None:
            _break(done, error)

        go()
        return done

    def start(self, prepared: bytes, take: Callable[[bytes], None], fail: Callable[[BenchError], None]) -> None:
        """Send a prepared request; one of the two hears of the outcome."""
        self._asked, self._take, self._fail = prepared, take, fail
        if self._transport is None:
            fail(BenchError(f"{self._address.url} has hung up"))
        else:
            self._transport.write(prepared)

    def close(self) -> None:
        """Hang up."""
        self._take = self._fail = _nobody_asked
        if self._transport:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell who waits for an answer that there will be none."""
        self._transport = None
        self._fail(BenchError(f"{self._address.url} has hung up{f': {error}' if error else ''}"))

    def data_received(self, data: bytes) -> None:
        """Wait for the whole of an answer, and hand it out."""
        if self._received:
            self._received += data
            if len(self._received) < self._expected:
                return
            data = bytes(self._received)
        head = data.find(_HEAD_END)
        if head < 0:
            self._received = bytearray(data)
            return
        found = _LENGTH.search(data, 0, head)
        if not found:
            self._fail(BenchError(f"{self._address.url} answers without a Content-Length, which this can't read"))
            return
        body = head + len(_HEAD_END)
        end = body + int(found[1])
        if len(data) < end:
            self._received, self._expected = bytearray(data), end
            return
        if self._received:
            self._received, self._expected = bytearray(), 0
        if data[_STATUS] < b"300":
            self._take(data[body:end])
        else:
            self._fail(self._refusal(data[_STATUS], data[body:end]))

    def _refusal(self, status: bytes, body: bytes) -> RefusedError:
        what = self._asked.partition(b" HTTP/1.1\r\n")[0].decode()
        try:
            reason = msgspec.json.decode(body, type=_Problem).detail
        except (msgspec.DecodeError, UnicodeDecodeError):
            reason = _phrase(int(status))
        return RefusedError(f"{self._address.url} answers {status.decode()} to {what}: {reason[:_SHOWN]}")


class _Problem(msgspec.Struct):
    detail: str


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no HTTP status"


def _nobody_asked(_: object) -> None:
    """Take what nobody waits for."""


def _settle(future: asyncio.Future[_T], value: _T) -> None:
    if not future.done():
        future.set_result(value)


def _break(future: asyncio.Future[_T], error: BenchError) -> None:
    if not future.done():
        future.set_exception(error)
