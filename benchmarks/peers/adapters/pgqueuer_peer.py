"""PGQueuer: asyncpg and uvloop; several queue managers on a connection each, as in its own benchmark."""

import asyncio
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode
from report import BATCH, PAYLOADS, VARIANT, batches, proved, timed

SIZE = {"single": 1, "batch": BATCH}[VARIANT]
PRODUCERS = {"single": 8, "batch": 4}[VARIANT]
MANAGERS = {"single": 8, "batch": 1}[VARIANT]
ran = 0


async def produce(queries: Queries) -> None:
    """Enqueue all tasks, one or a hundred in a call."""
    waiting = iter([[payload] for payload in PAYLOADS] if SIZE == 1 else list(batches()))

    async def enqueue() -> None:
        for payloads in waiting:
            count = len(payloads)
            bodies = [b'{"n":%d}' % payload["n"] for payload in payloads]
            await queries.enqueue(["bench"] * count, bodies, [0] * count)

    await asyncio.gather(*(enqueue() for _ in range(PRODUCERS)))


async def manager() -> PgQueuer:
    """Make a worker on a connection of its own, as its guide recommends."""
    worker = PgQueuer(AsyncpgDriver(await asyncpg.connect()))

    @worker.entrypoint("bench")
    async def handle(job: Job) -> None:
        global ran  # noqa: PLW0603
        ran += 1

    return worker


async def main() -> None:
    """Take all tasks through their lives."""
    async with asyncpg.create_pool(min_size=PRODUCERS, max_size=PRODUCERS) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()
        await queries.optimize_autovacuum()
        workers = [await manager() for _ in range(MANAGERS)]
        with timed("produce"):
            await produce(queries)
        with timed("drain"):
            await asyncio.gather(
                *(
                    worker.run(
                        batch_size=SIZE,
                        mode=QueueExecutionMode.drain,
                        dequeue_timeout=timedelta(seconds=1),
                    )
                    for worker in workers
                )
            )
        left = await pool.fetchval("SELECT count(*) FROM pgqueuer")
        done = await pool.fetchval("SELECT count(DISTINCT job_id) FROM pgqueuer_log WHERE status = 'successful'")
        proved("pgqueuer", ran=ran, stored=done - left)


if __name__ == "__main__":
    uvloop.run(main())
