"""RQ: a pool of two workers, which fork for each job or (`simple`) run it in their own process."""

import subprocess
import sys
import time
from pathlib import Path

from redis import Redis
from report import TASKS, VALKEY_SOCKET, VARIANT, batches, proved, timed
from rq import Queue, Worker

PROCESSES = 2
CLASSES = {"fork": "rq.Worker", "simple": "rq.SimpleWorker", "durable": "rq.SimpleWorker"}


def bench(n: int) -> None:
    """Do nothing: the workers count what they run."""


def hold() -> None:
    """Keep a worker until all tasks are in the queue."""
    Redis(unix_socket_path=VALKEY_SOCKET).blpop("bench-opens")


def main() -> None:
    """Take all tasks through their lives."""
    valkey = Redis(unix_socket_path=VALKEY_SOCKET)
    queue = Queue("bench", connection=valkey)
    for _ in range(PROCESSES):
        queue.enqueue("rq_peer.hold")
    pool = subprocess.Popen(
        [
            *(sys.executable, "-m", "rq.cli", "worker-pool", "bench", "--num-workers", str(PROCESSES), "--quiet"),
            *("--worker-class", CLASSES[VARIANT], "--url", f"unix://{VALKEY_SOCKET}"),
        ],
        cwd=Path(__file__).parent,
        stdout=sys.stderr,
    )
    try:
        while len(queue.started_job_registry) < PROCESSES:
            time.sleep(0.02)
        with timed("produce"):
            for payloads in batches():
                queue.enqueue_many([Queue.prepare_data("rq_peer.bench", kwargs=payload) for payload in payloads])
        with timed("drain"):
            valkey.rpush("bench-opens", *range(PROCESSES))
            while len(queue.finished_job_registry) < TASKS + PROCESSES:
                time.sleep(0.02)
        ran = sum(worker.successful_job_count for worker in Worker.all(connection=valkey))
        proved("rq", ran=ran - PROCESSES, stored=len(queue.finished_job_registry) - PROCESSES)
    finally:
        pool.terminate()
        pool.wait()


if __name__ == "__main__":
    main()
