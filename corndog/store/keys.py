"""One function for each statement about idempotency keys, and their purge.

A key is inserted first of all in its transaction: whoever uses it at the same time waits there for the commit.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from corndog.domain.keys import Kept, Key, Made, Remains, Renewal, renewal
from corndog.store.engine import Connection
from corndog.store.statements import load


class Due(NamedTuple):
    """A key whose time has come; `check_time` is that time, `now` the database's."""

    key: str
    check_time: datetime
    remains: Remains
    now: datetime


async def keep(connection: Connection, key: Key, made: Made, ttl: timedelta) -> bool:
    """Keep a key with what is made under it; False if it is there already."""
    row = await connection.fetchrow(
        load("keep_key"), key.text, key.request, made.job_id, list(made.task_ids), made.answer, ttl
    )
    return row is not None


async def find(connection: Connection, texts: Sequence[str]) -> dict[str, Kept]:
    """Read what is kept under keys."""
    return {
        text: Kept(request, Made(task_ids=tuple(task_ids), job_id=job_id, answer=answer))
        for text, request, job_id, task_ids, answer in await connection.fetch(load("find_keys"), list(texts))
    }


async def due(connection: Connection, batch: int) -> list[Due]:
    """Tell of up to `batch` keys whose time has come what remains of what was made under them."""
    return [
        Due(key, check_time, Remains(is_live, end_time, was_gone), now)
        for key, check_time, was_gone, is_live, end_time, now in await connection.fetch(load("due_keys"), batch)
    ]


async def renew(connection: Connection, renewals: Mapping[Due, Renewal]) -> None:
    """Set when these keys are looked at again."""
    await connection.fetch(
        load("renew_keys"),
        [found.key for found in renewals],
        [found.check_time for found in renewals],
        [renewed.check_time for renewed in renewals.values()],
        [renewed.is_gone for renewed in renewals.values()],
    )


async def drop(connection: Connection, dropped: list[Due]) -> None:
    """Drop keys."""
    await connection.fetch(load("drop_keys"), [found.key for found in dropped], [found.check_time for found in dropped])


async def purge(connection: Connection, ttl: timedelta, batch: int) -> int:
    """Look at up to `batch` keys whose time has come, and drop what is not to be kept; tell how many were looked at.

    A key of a batch stands for up to a thousand tasks: a hundred keys at a time are enough. It can be run again, and
    each of its statements may be a transaction of its own.
    """
    found = await due(connection, batch)
    judged = {each: renewal(each.remains, each.now, ttl) for each in found}
    if renewals := {each: renewed for each, renewed in judged.items() if renewed}:
        await renew(connection, renewals)
    if dropped := [each for each, renewed in judged.items() if not renewed]:
        await drop(connection, dropped)
    return len(found)
