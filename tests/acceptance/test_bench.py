"""`corndog bench`: it measures all that it says it does, here or at a URL, and leaves nothing behind."""

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import psutil
import pytest

from corndog.bench.catalog import MEASURES
from tests.command_line import alive, corndog, running, wait_until

QUICK = ("--scale", "0.002")
NAMES = [measure.name for measure in MEASURES]
AT_A_URL = ("single", "life", "latency", "jobs")
"""What is measured as a whole wherever the server is."""
PARTLY = ("wake-up", "idle", "bloat", "memory", "one-at-a-time")


def figures_of(*names: str) -> set[str]:
    return {figure for measure in MEASURES if measure.name in names for figure in measure.figures}


def measured(printed: str) -> dict[str, dict[str, Any]]:
    return {figure["name"]: figure for figure in map(json.loads, printed.splitlines())}


def check(figures: dict[str, dict[str, Any]]) -> None:
    for name, figure in figures.items():
        assert {"name", "value", "unit", "ratio", "of"} <= figure.keys()
        assert math.isfinite(figure["value"]), name
        assert figure["unit"], name
        assert (figure["ratio"] is None) == (figure["of"] == ""), name
        if name.split("-")[0] not in {"idle", "late"}:  # which are best at nothing
            assert figure["value"] > 0, name


def only(names: list[str]) -> list[str]:
    return [argument for name in names for argument in ("--only", name)]


@pytest.mark.parametrize("names", [NAMES[place::4] for place in range(4)], ids="+".join)
def test_every_measure_gives_its_figures(names: list[str]) -> None:
    done = corndog("bench", *QUICK, "--json", *only(names))
    assert done.returncode == 0
    assert "left out" not in done.stderr
    found = measured(done.stdout)
    assert found.keys() == figures_of(*names)
    check(found)


def test_a_server_s_url(server_url: str) -> None:
    done = corndog("bench", *QUICK, "--json", "--url", server_url, *only([*AT_A_URL, *PARTLY]))
    assert done.returncode == 0
    found = measured(done.stdout)
    assert figures_of(*AT_A_URL) <= found.keys()
    check(found)
    told = set(re.findall(r"[\w.-]+", done.stderr))
    assert figures_of(*AT_A_URL, *PARTLY) - found.keys() <= told
    assert found.keys().isdisjoint(told)
    assert "it looks into the database itself" in done.stderr
    assert live_tasks(server_url) == []


def test_ctrl_c_at_a_url_leaves_nothing_behind(server_url: str) -> None:
    with running("bench", "--only", "jobs", "--url", server_url) as command:
        wait_until(lambda: live_tasks(server_url))
        assert command.interrupt() == 130
    assert live_tasks(server_url) == []


@pytest.mark.parametrize("part", ["initdb", "serve"])
def test_ctrl_c_ends_all_that_was_started(part: str) -> None:
    seen: dict[psutil.Process, list[str]] = {}

    def has_begun() -> bool:
        # All in one look: a process may have ended by the next.
        seen.update({process: words(process) for process in command.family()})
        return any(part in said for said in seen.values()) and bool(directories())

    def directories() -> set[str]:
        return {found for said in seen.values() for found in re.findall(r"/tmp/corndog-bench-\w+", " ".join(said))}

    with running("bench", "--only", "idle") as command:
        wait_until(has_begun)
        [data] = directories()
        assert command.interrupt() == 130
    assert alive(list(seen)) == []
    assert not Path(data).exists()


def test_the_table_and_the_plots(tmp_path: Path, server_url: str) -> None:
    wanted = only(["single-submit", "latency", "idle"])
    done = corndog("bench", *QUICK, *wanted, "--url", server_url, "--plot", tmp_path / "plots")
    assert done.returncode == 0
    head, _, *rows = done.stdout.splitlines()
    assert f"{len(os.sched_getaffinity(0))} cores" in head
    assert head.endswith(server_url)
    [row] = [row for row in rows if row.startswith("single-submit ")]
    assert "of an empty handler" in row
    assert row.endswith("% of a core")
    assert rows[-1].startswith("left out: idle, idle-statements, ")
    plots = {path.name for path in (tmp_path / "plots").iterdir()}
    assert plots == {f"{name}.{kind}" for name in ("throughput", "latency") for kind in ("svg", "png")}
    assert (tmp_path / "plots" / "throughput.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--only", "nonsense"], 2, "nothing is called 'nonsense'"),
        (["--url", "nonsense"], 2, "'nonsense' is not an address"),
        (["--url", "http://127.0.0.1:99999"], 2, "'http://127.0.0.1:99999' is not an address"),
        (["--url", "http://127.0.0.1:9"], 1, "no answer from http://127.0.0.1:9: Connection refused"),
        (["--rate", "nan"], 2, "--rate"),
    ],
)
def test_what_cannot_work_is_refused(arguments: list[str], code: int, reason: str) -> None:
    done = corndog("bench", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert reason in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("ready", "status", "reason"),
    [
        (503, 503, "answers 503 to GET /readyz: Service Unavailable"),
        (401, 401, "answers 401 to GET /readyz: Unauthorized"),
        (200, 503, "answers 503 to GET /healthz: Service Unavailable; tasks may be left in queue bench-"),
    ],
)
def test_a_server_that_refuses(ready: int, status: int, reason: str) -> None:
    with refusing(ready, status) as url:
        done = corndog("bench", *QUICK, "--only", "single", "--url", url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {url} {reason}")
    assert done.stderr.count("\n") == 1


@contextmanager
def refusing(ready: int, status: int) -> Iterator[str]:
    """Run a server that is ready, or not, and answers nothing else."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(ready if self.path == "/readyz" else status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_POST = do_GET  # noqa: N815 - the handler's own convention

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def live_tasks(url: str) -> list[str]:
    queues = httpx.get(f"{url}/v1/queues").json()["queues"]
    return [name for name in map(str, queues) if "bench-" in name]


def words(process: psutil.Process) -> list[str]:
    try:
        return [process.name(), *process.cmdline()]
    except psutil.NoSuchProcess:
        return []
