"""Count the words of the standard library by a job: a map and a reduce, with a worker killed on the way.

split ──▶ count-0, count-1, … ──▶ merge
"""

import json
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from words import count_words, list_files, standard_library

LOOK_EVERY = 0.2  # seconds
FINAL = {"completed", "failed", "canceled"}
SHOWN = 5  # of the words


def job(queue: str, root: Path, limit: int | None, parts: int, work_timeout: float) -> dict[str, Any]:
    """Write the job: one task that splits, one for each part, and one that merges."""
    counts = [
        {"name": f"count-{part}", "kind": "count", "depends_on": ["split"], "payload": {"part": part}}
        for part in range(parts)
    ]
    return {
        "name": "wordcount",
        "defaults": {"queue": queue, "work_timeout": work_timeout},
        "tasks": [
            {"name": "split", "kind": "split", "payload": {"root": str(root), "limit": limit, "parts": parts}},
            *counts,
            {"name": "merge", "kind": "merge", "depends_on": [count["name"] for count in counts]},
        ],
    }


@contextmanager
def worker(server: str, queue: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker process for the length of a block."""
    script = str(Path(__file__).with_name("worker.py"))
    command = [sys.executable, script, "--server", server, "--queue", queue, *options]
    with subprocess.Popen(command) as process:  # noqa: S603 - ourselves
        try:
            yield process
        finally:
            process.terminate()


def kill_a_holder(http: httpx.Client, server: str, queue: str) -> str:
    """Start a worker that hangs in a task, wait until it holds one, and kill it. Gives the task's id."""
    with worker(server, queue, "--hang-in", "count") as unlucky:
        mine = {"queue": queue, "kind": "count", "phase": "held", "worker_id": f"worker-{unlucky.pid}"}
        while not (held := ask(http, "GET", "/v1/tasks", params=mine)["tasks"]):
            keep_going(unlucky)
        unlucky.send_signal(signal.SIGKILL)
    say(f"worker-{unlucky.pid} was killed while it held {held[0]['name']}")
    return str(held[0]["id"])


def wait_for_the_end(http: httpx.Client, job_id: str, queue: str, workers: list[subprocess.Popen[bytes]]) -> str:
    """Wait until the job has ended; meanwhile bring back what dead workers held. Gives its status."""
    while True:
        status: str = ask(http, "GET", f"/v1/jobs/{job_id}", params={"tasks": "false"})["job"]["status"]
        if status in FINAL:
            return status
        ask(http, "POST", "/v1/cleanup-timed-out", json={"queue": queue})
        keep_going(*workers)


def keep_going(*workers: subprocess.Popen[bytes]) -> None:
    """Rest a little; where all workers have ended by themselves there is no point in going on."""
    time.sleep(LOOK_EVERY)
    if all(process.poll() is not None for process in workers):
        raise typer.Exit(1)


def ask(http: httpx.Client, method: str, path: str, **what: Any) -> Any:  # noqa: ANN401
    """Make a call that must succeed."""
    return http.request(method, path, **what).raise_for_status().json()


def say(text: str) -> None:
    """Tell how it goes, beside the output."""
    print(text, file=sys.stderr)


def main(
    *,
    server: Annotated[str, typer.Option(help="Address of the corndog server.")] = "http://127.0.0.1:8080",
    root: Annotated[Path | None, typer.Option(help="Folder to count.", show_default="the standard library")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most files to count.")] = None,
    parts: Annotated[int, typer.Option(min=1, help="Into how many tasks the count is split.")] = 16,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 3,
    work_timeout: Annotated[float, typer.Option(help="Seconds until a task comes back from a dead worker.")] = 10.0,
    kill: Annotated[bool, typer.Option(help="Kill a worker while it holds a task.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals as JSON.")] = False,
) -> None:
    """Count words by a job, and compare with a count in one process."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root, queue = (root or standard_library()).resolve(), f"words-{uuid.uuid4().hex[:8]}"
    with httpx.Client(base_url=server, timeout=60) as http:
        try:
            made = ask(http, "POST", "/v1/jobs", json=job(queue, root, limit, parts, work_timeout))
        except httpx.TransportError as error:
            say(f"no corndog server answers at {server} ({error}); `make run` starts one")
            raise typer.Exit(1) from None
        job_id = made["job"]["id"]
        say(f"job {job_id}: `corndog job show {job_id}` shows it")
        killed_in = kill_a_holder(http, server, queue) if kill else None
        done = work(http, server, made, queue, workers)
    report = {"job": job_id, "queue": queue, "parts": parts, "killed_in": killed_in, **done}
    show(report, count_words(list_files(root, limit)), as_json=as_json)


def work(http: httpx.Client, server: str, made: dict[str, Any], queue: str, workers: int) -> dict[str, Any]:
    """Have the workers do the job. Gives its status, and the counts that it came to."""
    with ExitStack() as stack:
        pool = [stack.enter_context(worker(server, queue)) for _ in range(workers)]
        status = wait_for_the_end(http, made["job"]["id"], queue, pool)
    if status != "completed":
        return {"status": status, "counts": {}}
    return {"status": status, "counts": ask(http, "GET", f"/v1/tasks/{made['tasks']['merge']}/result")}


def show(report: dict[str, Any], single: Counter[str], *, as_json: bool) -> None:
    """Print the totals; where they aren't those of the single process, fail."""
    counts = Counter(report.pop("counts"))
    report |= {"words": counts.total(), "distinct": len(counts), "top": dict(counts.most_common(SHOWN))}
    report["same_as_one_process"] = counts == single
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        for name, value in report.items():
            print(f"{name.replace('_', ' '):20} {value}")
    if not report["same_as_one_process"]:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
