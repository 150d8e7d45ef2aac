"""Submit, claim and complete are one round trip to the database each: counted on the wire."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import make_url

from corndog.domain.task import Match, NewTask
from corndog.store.engine import Database, Isolation
from tests.store.house import TEXT, House, held_match, unheld_match

SYNC, QUERY = b"S", b"Q"
"""The messages that a client ends with before it waits for an answer."""


class Wire:
    """A proxy in front of PostgreSQL that counts how often the client waits for it."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self.round_trips = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self._socket)
        answering = asyncio.create_task(self._pass_on(from_server, writer))
        try:
            is_started = False
            while True:
                # Only the start of a connection has no kind.
                kind = await reader.readexactly(1) if is_started else b""
                length = await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(length) - 4)
                is_started = is_started or body[:4] == (196608).to_bytes(4)
                self.round_trips += kind in {SYNC, QUERY}
                to_server.write(kind + length + body)
                await to_server.drain()
        except asyncio.IncompleteReadError:
            pass  # the client has gone
        finally:
            to_server.close()
            await answering

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


@asynccontextmanager
async def watched(database_url: str, isolation: Isolation) -> AsyncIterator[tuple[Database, Wire]]:
    url = make_url(database_url)
    wire = Wire(f"{url.query['host']}/.s.PGSQL.{url.query['port']}")
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    through = url.set(host="127.0.0.1", port=port, query={"ssl": "disable"})
    database = Database(through.render_as_string(hide_password=False), isolation=isolation, pool_size=1)
    try:
        yield database, wire
    finally:
        await database.close()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
async def test_each_plain_call_is_one_round_trip(empty_database_url: str, isolation: Isolation) -> None:
    async with watched(empty_database_url, isolation) as (database, wire):
        house = House(database)

        async def rounds() -> dict[str, int]:
            """Do everything once, and tell how many round trips each took."""
            counted = {}
            for number in range(6):
                await house.submit(queue="q", kind=str(number))
            acts: dict[str, Callable[[], Awaitable[object]]] = {
                "submit": lambda: house.submit(queue="q", payload=TEXT),
                "submit a group": lambda: house.submit(9, queue="q", payload=TEXT),
                "claim": lambda: house.claim("q", count=3),
                "claim from two": lambda: house.claim(["q", "p"], count=1),
                "claim nothing": lambda: house.claim("none"),
            }
            for name, act in acts.items():
                before = wire.round_trips
                await act()
                counted[name] = wire.round_trips - before
            held, ready = await house.held("h"), (await house.submit(queue="r"))[0]
            for name, task, nexts in [
                ("complete", held, []),
                ("complete unheld", ready, []),
                ("complete with next tasks", await house.held("h"), [NewTask(), NewTask()]),
            ]:
                match = unheld_match(task) if task.held_by is None else held_match(task)
                before = wire.round_trips
                await house.endings.complete(task.id, match, TEXT, nexts)
                counted[name] = wire.round_trips - before
            cancelled = (await house.submit(queue="r"))[0]
            before = wire.round_trips
            await house.endings.cancel(cancelled.id, Match())
            counted["cancel"] = wire.round_trips - before
            return counted

        await rounds()  # prepares the statements
        counted = await rounds()
        assert counted.pop("complete with next tasks") == 4  # BEGIN, two statements, COMMIT
        assert counted == dict.fromkeys(counted, 1)
