"""Hash and count every `.py` file of the standard library: corndog's example pipeline.

submitted ──hash_worker.py──▶ count ──worker.sh + count.sh──▶ completed, with the counts as result
"""

import asyncio
import json
import shlex
import signal
import uuid
from pathlib import Path
from typing import Annotated, NoReturn

import httpx
import typer
from corndog_calls import AwayError, RefusedError
from corpus import find_python_files, printable, standard_library
from fleet import FleetError, default_count_workers
from pipeline import Plan, StalledError, run_pipeline
from report import Report
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

EXPECTED_FAILURES = (httpx.TransportError, AwayError, RefusedError, FleetError, StalledError)
INTERRUPTED = 130

console = Console(stderr=True)


def fail(message: str) -> NoReturn:
    """Say what is wrong and end."""
    console.print(message, style="red", markup=False, highlight=False)
    raise typer.Exit(1)


def check_server(server: str) -> None:
    """End with advice where there is no server that can work."""
    try:
        answer = httpx.get(f"{server}/readyz", timeout=10)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        fail(f"no corndog server answers at {server} ({error}); `make run` starts one")
    if answer.is_error:
        fail(f"the server at {server} isn't ready: {answer.text[:500]}")


def find_files(root: Path, limit: int | None) -> tuple[list[bytes], list[dict[str, str]]]:
    """List the files to work on, and the folders that can't be read."""
    unreadable: list[dict[str, str]] = []

    def skip(error: OSError) -> None:
        unreadable.append({"path": printable(error.filename), "error": error.strerror or str(error)})

    if not root.is_dir():
        fail(f"{root} isn't a folder")
    files = find_python_files(root, skip)[:limit]
    if not files:
        fail(f"there are no .py files in {root}")
    return files, unreadable


async def run_until_signaled(plan: Plan, progress: Progress) -> Report:
    """Run the pipeline; SIGTERM ends it as Ctrl-C does, so that no worker outlives it."""
    running = asyncio.create_task(run_pipeline(plan, progress))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await running


def run_behind_bars(plan: Plan) -> Report:
    """Run the pipeline and show its progress; where it fails, end with a message."""
    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as progress:
            return asyncio.run(run_until_signaled(plan, progress))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print(f"interrupted; unfinished tasks stay in queue {plan.queue}")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        cause = first_of(error)
        if not isinstance(cause, EXPECTED_FAILURES):
            raise
        fail(f"{type(cause).__name__}: {cause}")


def first_of(error: Exception) -> Exception:
    """Find the first exception in a group (of groups) that task groups make."""
    return first_of(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


def show(report: Report, root: Path, whole: bool) -> None:
    """Print the table, what was skipped, and how to check the totals without corndog."""
    out = Console()
    out.print(report.as_table())
    for skipped in report.skipped:
        out.print(f"skipped {skipped['path']}: {skipped['error']}", markup=False, highlight=False)
    if whole:
        folder = shlex.quote(str(root))
        out.print("The same lines, words and bytes without corndog:", highlight=False)
        print(f"  find {folder} -name '*-packages' -prune -o -type f -name '*.py' -exec cat {{}} + | wc")


def main(
    *,
    server: Annotated[str, typer.Option(help="Address of the corndog server.")] = "http://127.0.0.1:8080",
    root: Annotated[Path | None, typer.Option(help="Folder to work on.", show_default="the standard library")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most files to work on.")] = None,
    queue: Annotated[str | None, typer.Option(help="Queue to use.", show_default="a new one")] = None,
    count_workers: Annotated[int, typer.Option(min=1, help="Shell workers that count.")] = default_count_workers(),
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Tasks of one pull of a shell worker.")] = 8,
    concurrency: Annotated[int, typer.Option(min=1, help="Files hashed at a time.")] = 8,
    work_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds until a task comes back from a dead worker.")
    ] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals as JSON.")] = False,
) -> None:
    """Hash and count every .py file below a folder, with workers in two languages."""
    server = server.rstrip("/")
    check_server(server)
    root = (root or standard_library()).resolve()
    files, unreadable = find_files(root, limit)
    plan = Plan(
        server=server,
        queue=queue or f"files-{uuid.uuid4().hex[:8]}",
        files=files,
        concurrency=concurrency,
        count_workers=count_workers,
        batch=batch,
        work_timeout=work_timeout,
    )
    report = run_behind_bars(plan)
    report.skipped = unreadable + report.skipped
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        show(report, root, whole=limit is None)
    if report.missing:
        fail(f"{report.missing} submitted tasks are not in the archive")


if __name__ == "__main__":
    typer.run(main)
