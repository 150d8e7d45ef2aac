"""Connections to be hung up, and a database that is held up meanwhile."""

import asyncio
import json
import operator
from collections.abc import Awaitable, Callable
from typing import Any, Self

import asyncpg
import httpx
import psutil
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from corndog.api.reading import A_WHILE
from tests.faults import plain_url


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    await AsyncRetrying(retry=retry_if_result(operator.not_), wait=wait_fixed(0.01), stop=stop_after_delay(30))(
        condition
    )


class Wire:
    """A connection with one request on it, to be hung up."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        assert client.base_url.port is not None
        self._port = client.base_url.port

    async def __aenter__(self) -> Self:
        _, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def send(self, path: str = "/v1/tasks/next", **body: Any) -> None:  # noqa: ANN401
        """Ask for tasks, or for something else by a POST."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length:"
        self._writer.write(f"{head} {len(content)}\r\n\r\n".encode() + content)
        await self._writer.drain()

    async def hang_up(self) -> None:
        """Close the connection, and wait until the server has taken note of it."""
        await asyncio.sleep(2 * A_WHILE)  # until the server looks out for this
        own_port = self._writer.get_extra_info("sockname")[1]
        self._writer.close()
        await self._writer.wait_closed()

        async def is_gone() -> bool:
            ends = [(end.laddr, end.raddr) for end in psutil.net_connections("tcp") if end.laddr and end.raddr]
            return (self._port, own_port) not in [(near[1], far[1]) for near, far in ends]

        await until(is_gone)
        # Whatever the server's loop was told before, it has seen after another request.
        await self._client.get("/healthz")


class HoldUp:
    """Whoever wants to write a table waits while this lasts."""

    def __init__(self, url: str, table: str) -> None:
        self._url = plain_url(url)
        self._table = table

    async def __aenter__(self) -> Self:
        self._locker = await asyncpg.connect(self._url)
        await self._locker.execute("BEGIN")
        await self._locker.execute(f"LOCK TABLE {self._table} IN EXCLUSIVE MODE")
        return self

    async def until_one_waits(self) -> None:
        """Wait until a statement waits for the table; the loop that unparks goes over all tasks, and doesn't count.

        The look is no part of the transaction that locks: there it would go on seeing the sessions as they were first.
        """
        query = """SELECT EXISTS (SELECT FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
            WHERE NOT l.granted AND l.relation = $1::text::regclass AND a.query NOT LIKE '%unparked AS%')"""

        async def does_wait() -> bool:
            return bool(await looker.fetchval(query, self._table))

        looker = await asyncpg.connect(self._url)
        try:
            await until(does_wait)
        finally:
            await looker.close()

    async def __aexit__(self, *_: object) -> None:
        await self._locker.close()
