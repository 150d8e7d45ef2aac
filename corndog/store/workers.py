"""One function for each statement about workers. All of them can be run again after a lost connection."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from operator import itemgetter

from corndog.domain.workers import ACTIVE_SINCE, HOLDS_MAX, Holding, Worker, WorkerFilter
from corndog.store.engine import Connection
from corndog.store.rows import Row
from corndog.store.statements import load


async def keep(connection: Connection, heard: Mapping[str, str | None]) -> dict[str, bool]:
    """Write down that workers were heard of, with their metadata where they gave any; tell of each if it drains."""
    written = await connection.fetch(load("keep_workers"), list(heard), list(heard.values()))
    return {row[0]: row[1] for row in written}


async def page(connection: Connection, wanted: WorkerFilter, after: str, limit: int) -> list[Worker]:
    """List workers by name, each with what it holds."""
    read = await connection.fetch(load("list_workers"), after, limit, wanted.active_since, HOLDS_MAX)
    return [_worker(list(rows), wanted) for _, rows in groupby(read, key=itemgetter(0))]


async def names(connection: Connection, after: str, limit: int) -> list[str]:
    """Name workers in the order of their listing, without what they hold."""
    return [row[0] for row in await connection.fetch(load("worker_names"), after, limit, None)]


async def drain(connection: Connection, ids: Iterable[str], *, drains: bool) -> set[str]:
    """Mark workers to drain, or not to; gives those that there are."""
    return {row[0] for row in await connection.fetch(load("drain_workers"), list(ids), drains)}


async def purge(connection: Connection, older_than: timedelta, batch: int) -> int:
    """Forget a batch of workers that were not seen for so long and hold nothing; tells how many there were."""
    return len(await connection.fetch(load("purge_workers"), older_than, batch))


def _worker(rows: Sequence[Row], wanted: WorkerFilter) -> Worker:
    worker_id, first_seen, last_seen, drains, metadata, now, number, earliest, latest, *_ = rows[0]
    seen = max(time for time in (last_seen, latest) if time is not None)
    return Worker(
        id=worker_id,
        first_seen=earliest if first_seen is None else first_seen,
        last_seen=seen,
        is_active=now - seen <= (wanted.active_since or ACTIVE_SINCE),
        drains=bool(drains),
        metadata=metadata,
        held=number or 0,
        holds=tuple(_holding(row) for row in rows) if number else (),
    )


def _holding(row: Row) -> Holding:
    now, (task_id, queue, state, kind, delivery, claim_time, due_time) = row[5], row[9:]
    return Holding(
        id=task_id,
        queue=queue,
        current_state=state,
        kind=kind,
        delivery=delivery,
        claim_time=claim_time,
        due_time=due_time,
        is_overdue=due_time is not None and due_time <= now,
    )
