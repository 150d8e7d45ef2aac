"""beanstalkd: a connection to put and one to reserve; in memory, or with a log that is synced each time."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import greenstalk
from report import PAYLOADS, VARIANT, say, timed

PROGRAM = os.environ.get("BEANSTALKD", "")


def connect(socket: str, server: subprocess.Popen[bytes]) -> greenstalk.Client:
    """Connect as soon as the server listens."""
    while True:
        try:
            return greenstalk.Client(socket)
        except OSError:
            if server.poll() is not None:
                raise
            time.sleep(0.02)


def main(directory: str) -> None:
    """Take all tasks through their lives."""
    socket = f"{directory}/socket"
    log = ["-b", directory, "-f", "0"] if VARIANT == "durable" else []
    server = subprocess.Popen([PROGRAM, "-l", f"unix:{socket}", *log], stdout=sys.stderr)
    try:
        with connect(socket, server) as producer, connect(socket, server) as worker:
            with timed("produce"):
                for payload in PAYLOADS:
                    producer.put(json.dumps(payload))
            with timed("drain"):
                for _ in PAYLOADS:
                    worker.delete(worker.reserve(timeout=10))
            stats = worker.stats()
            left = sum(stats[f"current-jobs-{state}"] for state in ("ready", "reserved", "delayed", "buried"))
            say(ran=stats["cmd-delete"], stored=stats["total-jobs"] - left, version=stats["version"])
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=Path("/tmp")) as scratch:
        main(scratch)
