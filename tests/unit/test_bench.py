"""The load generator: what it reads is whole, what is late is seen, and what is wrong is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from corndog.bench import plots
from corndog.bench.catalog import MEASURES, choose
from corndog.bench.errors import BenchError, RefusedError
from corndog.bench.figures import Figure, Findings
from corndog.bench.http import Address, Line, Request
from corndog.bench.living import Ledger, lead, way
from corndog.bench.load import paced, rate

Answering = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
GET = Request("GET", "/")


@asynccontextmanager
async def serving(answer: Answering) -> AsyncIterator[Address]:
    """Run a server that reads heads of requests and answers them by a function."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await read_head(reader):
            await answer(head, writer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


async def read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def response(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d Some\r\nServer: x\r\nCONTENT-length: %d\r\n\r\n%s" % (status, len(body), body)


async def ok(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(response(b"{}"))


async def test_an_answer_in_pieces_is_put_together() -> None:
    body = bytes(range(256)) * 3

    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        whole = response(body)
        for place in range(0, len(whole), 7):
            writer.write(whole[place : place + 7])
            await writer.drain()
            await asyncio.sleep(0)

    async with serving(answer) as address:
        line = await Line.to(address)
        assert await line.send(GET) == body
        assert await line.send(GET) == body
        line.close()


async def test_refusals_say_what_was_asked_and_why() -> None:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b'{"code":"invalid","detail":"no such thing"}', 400))

    async with serving(answer) as address:
        with pytest.raises(RefusedError, match=r"answers 400 to GET /a: no such thing$"):
            await rate(address, 2, [Request("GET", "/a")] * 5)


@pytest.mark.parametrize(
    ("sent", "reason"), [(b"", "has hung up"), (b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n", "without a Content-Length")]
)
async def test_what_is_no_answer_is_told(sent: bytes, reason: str) -> None:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        writer.close()

    async with serving(answer) as address:
        with pytest.raises(BenchError, match=reason):
            await rate(address, 1, [GET])


async def test_all_requests_are_sent_once_and_answers_kept() -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(head.split(b" ")[1]))

    async with serving(answer) as address:
        found = await rate(address, 3, [Request("GET", f"/{number}") for number in range(50)], bytes.decode)
    assert sorted(found.kept) == sorted(f"/{number}" for number in range(50))
    assert found.per_second > 0


async def test_a_stalled_server_makes_all_that_is_due_meanwhile_late() -> None:
    stalls = iter([0.2])

    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(next(stalls, 0))
        writer.write(response(b"{}"))

    async with serving(answer) as address:
        found = await paced(address, 1, [GET] * 20, 100)
    # Had only the time since sending counted, all but one would be fast.
    assert len(found.seconds) == 20
    assert sum(seconds > 0.05 for seconds in found.seconds) >= 10
    assert found.seconds == sorted(found.seconds)


async def test_a_pace_ends_with_the_first_refusal() -> None:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"", 503))

    async with serving(answer) as address:
        with pytest.raises(RefusedError, match="503"):
            await paced(address, 1, [GET] * 20, 1000)


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://a:81/", b"GET / HTTP/1.1\r\nHost: a:81\r\n"),
        ("http://a/b/", b"GET /b/ HTTP/1.1\r\nHost: a:80\r\n"),
        ("https://[::1]", b"GET / HTTP/1.1\r\nHost: [::1]:443\r\n"),
    ],
)
def test_addresses(url: str, sent: bytes) -> None:
    assert Address.of(url).prepare(GET).startswith(sent)


@pytest.mark.parametrize("url", ["", "a:80", "ftp://a", "http://", "http://a:x", "http://a?b"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Address.of(url)


class Shop:
    """Answers as a server does, from memory; `slip` says what it gets wrong."""

    def __init__(self, slip: str = "") -> None:
        self.slip = slip
        self.ready: list[str] = []
        self.made = 0
        self.paths: set[str] = set()

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.paths.add(path)
        if path == "/v1/tasks":
            return self.submit()
        if path == "/v1/tasks/batch":
            return {"results": [self.submit() | {"status": 201} for _ in body["tasks"]], "failed": 0}
        if path == "/v1/tasks/next":
            return self.claim(body)
        replayed = self.slip == "replays"
        claimed = {"claimed": self.claim(body["claim"])} if "claim" in body else {}
        if path == "/v1/tasks/complete":
            results = [{"status": 200, "id": task["id"], "replayed": replayed} for task in body["tasks"]]
            return {"results": results, "failed": 0, **claimed}
        return {"task": {}, "next_tasks": [], "replayed": replayed, **claimed}

    def submit(self) -> dict[str, Any]:
        self.made += 1
        self.ready.append(f"task-{self.made}")
        return {"id": self.ready[-1], "task": {}, "replayed": False}

    def claim(self, body: dict[str, Any]) -> dict[str, Any]:
        taken, self.ready = self.ready[: body.get("count", 1)], self.ready[body.get("count", 1) :]
        if self.slip == "hands out twice" and taken == ["task-2"]:
            taken = ["task-1"]
        return {"tasks": [{"id": task, "delivery": 1, "queue": "bench"} for task in taken]}


@asynccontextmanager
async def keeping(shop: Shop) -> AsyncIterator[Address]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await read_head(reader):
            body = await reader.readexactly(int(head.rpartition(b"Content-Length: ")[2]))
            writer.write(
                response(msgspec.json.encode(shop.answer(head.split()[1].decode(), msgspec.json.decode(body))))
            )
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


@pytest.mark.parametrize(("name", "many"), [("separate", False), ("claiming", False), ("10", True), ("100", True)])
async def test_lives_are_led_to_their_end(name: str, *, many: bool) -> None:
    shop = Shop()
    async with keeping(shop) as address:
        per_second, _ = await lead(address, 3, way(name, "bench"), 300)
    assert (shop.made, shop.ready) == (300, [])
    assert per_second > 0
    assert any(path.endswith("/complete") for path in shop.paths)
    assert ("/v1/tasks/complete" in shop.paths) == many


@pytest.mark.parametrize("name", ["separate", "claiming", "10"])
async def test_a_replay_is_no_completion(name: str) -> None:
    async with keeping(Shop("replays")) as address:
        with pytest.raises(BenchError, match="replayed"):
            await lead(address, 1, way(name, "bench"), 10)


@pytest.mark.parametrize("name", ["separate", "claiming"])
async def test_a_task_that_is_handed_out_twice_is_seen(name: str) -> None:
    async with keeping(Shop("hands out twice")) as address:
        with pytest.raises(BenchError, match="of 10 tasks 10 were submitted, and 9 were completed by 10 completions"):
            await lead(address, 1, way(name, "bench"), 10)


@pytest.mark.parametrize(
    ("submitted", "completed"),
    [("ab", "a"), ("ab", "aa"), ("ab", "abb"), ("ab", "ac"), ("a", "a"), ("aa", "ab")],
)
def test_lives_that_were_not_led_once_are_told(submitted: str, completed: str) -> None:
    Ledger(list("ab"), list("ba")).verify(2)
    with pytest.raises(BenchError):
        Ledger(list(submitted), list(completed)).verify(2)


def test_names() -> None:
    figures = [figure for measure in MEASURES for figure in measure.figures]
    assert len(figures) == len(set(figures))
    assert choose([]) == set(figures)
    assert choose(["single-claim"]) == {"single-claim"}
    assert choose(["idle", "wake-up"]) == {name for name in figures if name.startswith(("idle", "wake-up", "submit-"))}
    with pytest.raises(ValueError, match="nothing is called 'x'"):
        choose(["x"])


def test_plots_show_what_there_is(tmp_path: Path) -> None:
    figures = [
        Figure(name="single-submit", value=10, unit="calls/s", ratio=0.1, of="an empty handler"),
        Figure(name="shallow", value=5, unit="claims/s"),
        Figure(name="depth", value=4, unit="claims/s", ratio=0.8, of="few"),
        Figure(name="count-of-few", value=4, unit="ms"),
        Figure(name="memory", value=4, unit="MiB", ratio=1.0, of="before"),
    ]
    drawn = plots.draw(Findings(figures, curves={"submit": [0.001, 0.002]}), "here", tmp_path / "new")
    assert {path.stem for path in drawn} == {"throughput", "latency", "depth-claims-s", "depth-ms"}
    assert set(drawn) == set((tmp_path / "new").iterdir())
    assert plots.draw(Findings(), "here", tmp_path) == []
    (tmp_path / "file").touch()
    with pytest.raises(BenchError, match="can't write plots"):
        plots.draw(Findings(), "here", tmp_path / "file")


def test_plots_need_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    plots.require()
    monkeypatch.setattr(plots, "find_spec", lambda _: None)
    with pytest.raises(BenchError, match=r"matplotlib is missing; install corndog with its `plot` extra"):
        plots.require()
