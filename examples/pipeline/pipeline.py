"""The run itself: start the workers, submit the files, watch until all is done, read the totals."""

import asyncio
import time
from dataclasses import dataclass
from functools import partial

import httpx
from corndog_calls import Corndog
from corpus import to_payload
from fleet import Fleet, count_worker, hash_worker
from report import Report, read_report
from rich.progress import Progress

SUBMITS_AT_A_TIME = 16
LOOK_EVERY = 0.25  # seconds between two looks at the counts
CLEAN_UP_EVERY = 1.0
STALLED_AFTER = 120.0  # no task has ended for so long: something is wrong


class StalledError(Exception):
    """Tasks are left and none of them comes to an end."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run, where, and with how many workers."""

    server: str
    queue: str
    files: list[bytes]
    concurrency: int
    count_workers: int
    batch: int
    work_timeout: float

    def workers(self) -> dict[str, list[str]]:
        """Give the command lines of all workers by name."""
        hashing = {"hash": hash_worker(self.server, self.queue, self.concurrency)}
        counting = count_worker(self.server, self.queue, self.batch)
        return hashing | {f"count-{number}": counting for number in range(1, self.count_workers + 1)}


class Board:
    """Three progress bars, fed by what was submitted and by the queue's state counts."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._submitted, self._hashed, self._counted = (
            progress.add_task(name, total=total) for name in ("submitted", "hashed", "counted")
        )

    def show(self, submitted: int, counts: dict[str, int]) -> None:
        """Move the bars; `counts` holds the live tasks by state."""
        live = sum(counts.values())
        # Held and parked tasks show as `submitted-working`, `submitted-scheduled`.
        unhashed = sum(n for state, n in counts.items() if state.startswith("submitted"))
        self._progress.update(self._submitted, completed=submitted)
        self._progress.update(self._hashed, completed=max(0, submitted - unhashed))
        self._progress.update(self._counted, completed=max(0, submitted - live))


async def run_pipeline(plan: Plan, progress: Progress) -> Report:
    """Run the pipeline from the first submit to the totals.

    Raises:
        StalledError, FleetError, AwayError, RefusedError, httpx.TransportError: alone or in an exception
            group; the workers have been stopped by then, unfinished tasks stay on the server.

    """
    async with httpx.AsyncClient(base_url=plan.server, timeout=30) as http:
        corndog = Corndog(http)
        fleet = Fleet(partial(progress.console.print, markup=False, highlight=False, soft_wrap=True))
        board = Board(progress, len(plan.files))
        ids: set[str] = set()
        started = time.monotonic()
        async with fleet.running(plan.workers()), asyncio.TaskGroup() as chores:
            cleaning = chores.create_task(keep_cleaning_up(corndog, plan.queue))
            chores.create_task(submit_all(corndog, plan, ids))
            await watch(corndog, plan, ids, board)
            seconds = time.monotonic() - started
            cleaning.cancel()
        return await read_report(corndog, plan.queue, ids, seconds, fleet.replaced)


async def submit_all(corndog: Corndog, plan: Plan, ids: set[str]) -> None:
    """Submit a task for each file, several at a time, and note their ids."""
    waiting = iter(plan.files)

    async def submit_some() -> None:
        for path in waiting:
            ids.add(await corndog.submit(plan.queue, "submitted", to_payload(path), plan.work_timeout))

    async with asyncio.TaskGroup() as submitters:
        for _ in range(SUBMITS_AT_A_TIME):
            submitters.create_task(submit_some())


async def watch(corndog: Corndog, plan: Plan, ids: set[str], board: Board) -> None:
    """Show the progress until everything is submitted and nothing is left in the queue."""
    total = len(plan.files)
    fewest, fewest_since = total + 1, time.monotonic()
    while True:
        submitted = len(ids)  # before the counts, so that a task in between counts as left
        counts = await corndog.state_counts(plan.queue)
        board.show(submitted, counts)
        left = total - submitted + sum(counts.values())
        if left == 0:
            return
        if left < fewest:
            fewest, fewest_since = left, time.monotonic()
        elif time.monotonic() - fewest_since > STALLED_AFTER:
            raise StalledError(f"no task has ended for {STALLED_AFTER:.0f} s; left: {counts}")
        await asyncio.sleep(LOOK_EVERY)


async def keep_cleaning_up(corndog: Corndog, queue: str) -> None:
    """Bring back what dead workers held, whether or not the server's own sweep is on."""
    while True:
        await corndog.clean_up(queue)
        await asyncio.sleep(CLEAN_UP_EVERY)
