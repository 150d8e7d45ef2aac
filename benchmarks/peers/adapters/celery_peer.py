"""Celery: prefork workers with a large prefetch, as its guide advises for short tasks; results in Valkey."""

import subprocess
import sys
import time
from pathlib import Path

from celery import Celery
from redis import Redis
from report import PAYLOADS, TASKS, VALKEY_SOCKET, VARIANT, proved, timed

PROCESSES = 2
PREFETCH = 128
RESULTS = "celery-task-meta-*"
app = Celery("celery_peer", broker=f"redis+socket://{VALKEY_SOCKET}", backend=f"redis+socket://{VALKEY_SOCKET}")
app.conf.update(
    task_acks_late=VARIANT == "durable",
    task_default_queue="bench",
    worker_prefetch_multiplier=PREFETCH,
    worker_hijack_root_logger=False,
)


@app.task(name="bench")
def bench(n: int) -> None:
    """Do nothing: the worker itself counts what it runs."""


def start_worker() -> subprocess.Popen[bytes]:
    """Start a worker that takes nothing yet, and wait until it answers."""
    worker = subprocess.Popen(
        [
            *(sys.executable, "-m", "celery", "--app", "celery_peer", "worker", "--queues", "none"),
            *("--concurrency", str(PROCESSES), "--loglevel", "ERROR"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
        cwd=Path(__file__).parent,
        stdout=sys.stderr,
    )
    while not app.control.ping(timeout=0.2):
        if worker.poll() is not None:
            raise RuntimeError("the worker has ended")
    return worker


def results(valkey: Redis) -> int:
    """Count the results that say success."""
    keys = list(valkey.scan_iter(RESULTS, count=10_000))
    return sum(b'"SUCCESS"' in result for result in valkey.mget(keys)) if keys else 0


def main() -> None:
    """Take all tasks through their lives."""
    valkey = Redis(unix_socket_path=VALKEY_SOCKET)
    worker = start_worker()
    try:
        others = valkey.dbsize()
        with timed("produce"):
            for payload in PAYLOADS:
                bench.apply_async(kwargs=payload)
        with timed("drain"):
            app.control.add_consumer("bench")
            while valkey.dbsize() < others + TASKS or results(valkey) < TASKS:
                time.sleep(0.02)
        [totals] = [answer["total"] for answer in app.control.inspect().stats().values()]
        proved("celery", ran=totals["bench"], stored=results(valkey))
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    main()
