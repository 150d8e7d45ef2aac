"""What the tests of the shell worker work with: the worker, a queue, a gate and a proxy."""

import errno
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.servers import ROOT

WORKER = ROOT / "clients" / "shell" / "worker.sh"

Task = dict[str, Any]


class Queue:
    """A queue of its own for one test."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.name = f"shell-{uuid.uuid4().hex[:8]}"

    def submit(self, **fields: object) -> str:
        return str(self._ok(self.http.post("/v1/tasks", json={"queue": self.name, **fields}))["task"]["id"])

    def submit_raw(self, payload: bytes, media_type: str) -> str:
        headers = {"Content-Type": media_type}
        answer = self.http.post("/v1/tasks/raw", params={"queue": self.name}, content=payload, headers=headers)
        return str(self._ok(answer)["task"]["id"])

    def task(self, task_id: str) -> Task:
        task: Task = self._ok(self.http.get(f"/v1/tasks/{task_id}"))["task"]
        return task

    def bytes_of(self, task_id: str, part: str) -> tuple[bytes, str]:
        answer = self.http.get(f"/v1/tasks/{task_id}/{part}").raise_for_status()
        return answer.content, answer.headers["content-type"]

    @staticmethod
    def _ok(answer: httpx.Response) -> dict[str, Any]:
        assert answer.is_success, answer.text
        body: dict[str, Any] = answer.json()
        return body


def command_line(server: str, queue: Queue, *arguments: str) -> list[str]:
    return [str(WORKER), "--server", server, "--queue", queue.name, "--poll", "0.1", *arguments]


def run_worker(server: str, queue: Queue, *arguments: str) -> str:
    """Run a worker to its end and return what it logged."""
    worker = subprocess.run(
        command_line(server, queue, *arguments), capture_output=True, text=True, timeout=60, check=False
    )
    assert worker.returncode == 0, worker.stderr
    return worker.stderr


@contextmanager
def started(server: str, queue: Queue, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a worker, and end it with the block whatever happens there."""
    with subprocess.Popen(command_line(server, queue, *arguments), stderr=subprocess.PIPE, text=True) as worker:
        try:
            yield worker
        finally:
            if worker.poll() is None:
                worker.terminate()


def wait_for_log(worker: subprocess.Popen[str], text: str) -> None:
    assert worker.stderr
    for line in worker.stderr:
        if text in line:
            return
    pytest.fail(f"the worker ended without logging {text!r}")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it didn't come to pass"
        time.sleep(0.02)


class Gate:
    """A command that says when it has begun and goes on when it is told to, over named pipes."""

    def __init__(self, folder: Path) -> None:
        self._begun, self._go = folder / "begun", folder / "go"
        for pipe in (self._begun, self._go):
            os.mkfifo(pipe)
        self.command = ("sh", "-c", f"echo > {self._begun}; cat {self._go}; echo done")

    def wait_for_command(self) -> None:
        self._begun.read_text()

    def let_go(self) -> None:
        self._go.write_text("")

    def someone_waits(self) -> bool:
        """Tell whether the command, or anything it started, is still there."""
        try:
            os.close(os.open(self._go, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            return error.errno != errno.ENXIO
        return True


class Proxy(ThreadingHTTPServer):
    """Passes requests on to the server, and can lose requests or answers."""

    daemon_threads = True

    def __init__(self, upstream: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), ProxyHandler)
        self.upstream = upstream
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answer_with: int | None = None
        self.lose_answers_of = ""
        self.seen: list[tuple[float, str]] = []

    @contextmanager
    def running(self) -> Iterator["Proxy"]:
        thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class ProxyHandler(BaseHTTPRequestHandler):
    """One request on its way to the server and back."""

    server: Proxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((time.monotonic(), self.path))
        if self.server.answer_with:
            self.send_error(self.server.answer_with)
            return
        headers = {"Content-Type": self.headers["Content-Type"]}
        answer = httpx.post(self.server.upstream + self.path, content=body, headers=headers)
        if self.server.lose_answers_of and self.path.endswith(self.server.lose_answers_of):
            self.server.lose_answers_of = ""
            return
        self.send_response(answer.status_code)
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass
