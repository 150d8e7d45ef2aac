"""Procrastinate: its async worker, one connection pool, jobs kept after they have ended (its default)."""

import asyncio
import logging

import uvloop
from procrastinate import App, PsycopgConnector
from report import PAYLOADS, VARIANT, batches, proved, timed

CONNECTIONS = 16
WORKERS = 8
CONCURRENCY = 2
logging.getLogger("procrastinate").setLevel(logging.WARNING)
app = App(connector=PsycopgConnector(min_size=CONNECTIONS, max_size=CONNECTIONS))
ran = 0


@app.task(name="bench", queue="bench")
async def bench(n: int) -> None:
    """Count."""
    global ran  # noqa: PLW0603
    ran += 1


async def produce() -> None:
    """Defer all tasks, one or a hundred in a call."""
    waiting = iter(PAYLOADS)
    waiting_batches = batches()

    async def defer() -> None:
        for payload in waiting:
            await bench.defer_async(**payload)

    async def defer_batches() -> None:
        for payloads in waiting_batches:
            await bench.batch_defer_async(*payloads)

    if VARIANT == "single":
        await asyncio.gather(*(defer() for _ in range(CONNECTIONS)))
    else:
        await asyncio.gather(*(defer_batches() for _ in range(4)))


async def main() -> None:
    """Take all tasks through their lives."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        with timed("produce"):
            await produce()
        with timed("drain"):
            await asyncio.gather(
                *(
                    app.run_worker_async(
                        wait=False, concurrency=CONCURRENCY, listen_notify=False, install_signal_handlers=False
                    )
                    for _ in range(WORKERS)
                )
            )
        done = await app.connector.execute_query_one_async(
            "SELECT count(*) AS number FROM procrastinate_jobs WHERE status = 'succeeded' AND attempts = 1"
        )
        proved("procrastinate", ran=ran, stored=done["number"])


if __name__ == "__main__":
    uvloop.run(main())
