"""The worker processes of one run: started together, replaced when they die, stopped together."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHELL_WORKER = HERE.parents[1] / "clients" / "shell" / "worker.sh"

MAX_REPLACEMENTS = 10  # workers that keep dying have a fault that no replacement cures
STOP_SECONDS = 10.0


class FleetError(Exception):
    """Workers die again and again."""


def hash_worker(server: str, queue: str, concurrency: int) -> list[str]:
    """Build the command line of the worker that hashes."""
    script = str(HERE / "hash_worker.py")
    options = ["--server", server, "--queue", queue, "--concurrency", str(concurrency)]
    return [sys.executable, script, *options]


def count_worker(server: str, queue: str, batch: int) -> list[str]:
    """Build the command line of a worker that counts: the shell worker around `count.sh`."""
    options = ["--server", server, "--queue", queue, "--state", "count", "--count", str(batch)]
    options += ["--output-type", "application/json", "--poll", "0.3", "--retry-delay", "2", "--grace", "5"]
    return [str(SHELL_WORKER), *options, "--", str(HERE / "count.sh")]


class Fleet:
    """Named worker processes, each kept running until the fleet is stopped."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self.replaced = 0

    @asynccontextmanager
    async def running(self, workers: dict[str, list[str]]) -> AsyncIterator[None]:
        """Keep the workers running for the length of the block.

        Raises:
            FleetError: workers keep dying (in an exception group; the block is cancelled).

        """
        async with asyncio.TaskGroup() as supervisors:
            tasks = [supervisors.create_task(self._keep_running(*worker)) for worker in workers.items()]
            yield
            for task in tasks:
                task.cancel()

    async def _keep_running(self, name: str, command: list[str]) -> None:
        while True:
            process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stderr=PIPE)
            self._say(f"worker {name}: process {process.pid}")
            try:
                await self._pass_on_messages(process)
                status = await process.wait()
            finally:
                await stop(process)
            self.replaced += 1
            if self.replaced > MAX_REPLACEMENTS:
                raise FleetError(f"workers keep dying, the last one was {name} with status {status}")
            self._say(f"worker {name}: ended with status {status}, is replaced")
            await asyncio.sleep(0.2)

    async def _pass_on_messages(self, process: asyncio.subprocess.Process) -> None:
        # Written straight to the terminal, they would tear up the progress bars.
        assert process.stderr
        async for line in process.stderr:
            self._say(line.decode(errors="replace").rstrip())


async def stop(process: asyncio.subprocess.Process) -> None:
    """Ask a worker to end, and end it if it doesn't."""
    if process.returncode is not None:
        return
    process.terminate()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
        return
    process.kill()
    await process.wait()


def default_count_workers() -> int:
    """Two per processor: while one waits for the server, the other counts."""
    return 2 * (os.cpu_count() or 1)
