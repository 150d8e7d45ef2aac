"""The example pipeline on real files, its totals against those of `find` and `wc`."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers import ROOT

PIPELINE = ROOT / "examples" / "pipeline"
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib")).resolve()

pytestmark = pytest.mark.timeout(300)

Totals = dict[str, Any]


def pipeline(server_url: str, *options: str) -> list[str]:
    return [sys.executable, str(PIPELINE / "run.py"), "--server", server_url, "--json", *options]


def run(server_url: str, *options: str) -> Totals:
    done = subprocess.run(pipeline(server_url, *options), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    totals: Totals = json.loads(done.stdout)
    return totals


def independent(root: Path, limit: int | None = None) -> Totals:
    """Count the same files with find, cat and wc."""
    find = ["find", str(root), "-name", "*-packages", "-prune", "-o", "-type", "f", "-name", "*.py", "-print0"]
    listing = subprocess.run(find, capture_output=True, check=True).stdout
    files = sorted(listing.split(b"\0")[:-1])[:limit]
    count = subprocess.run(["sh", "-c", "xargs -0 cat | wc"], input=b"\0".join(files), capture_output=True, check=True)
    lines, words, size = map(int, count.stdout.split())
    hashes = {hashlib.sha256(Path(os.fsdecode(file)).read_bytes()).digest() for file in files}
    return {
        "files": len(files),
        "lines": lines,
        "words": words,
        "bytes": size,
        "distinct_hashes": len(hashes),
    }


def same_totals(totals: Totals, expected: Totals) -> bool:
    return {name: totals[name] for name in expected} == expected and totals["missing"] == 0


def test_totals_equal_those_of_wc(server_url: str) -> None:
    totals = run(server_url, "--limit", "250")
    assert same_totals(totals, independent(STANDARD_LIBRARY, 250))
    assert (totals["files"], totals["skipped"], totals["workers_replaced"]) == (250, [], 0)


def test_killed_workers_lose_no_file(server_url: str) -> None:
    queue = f"files-{uuid.uuid4().hex[:8]}"
    options = ["--limit", "100", "--queue", queue, "--work-timeout", "5", "--count-workers", "2", "--batch", "2"]
    with started(server_url, *options) as driver, httpx.Client(base_url=server_url) as http:
        workers = read_workers(driver, {"hash", "count-1", "count-2"})
        wait_until_some_are_counted(http, queue)
        for name in ("hash", "count-1"):
            os.kill(workers[name], signal.SIGKILL)
        output, errors = driver.communicate(timeout=240)
    assert driver.returncode == 0, errors
    totals = json.loads(output)
    assert same_totals(totals, independent(STANDARD_LIBRARY, 100))
    assert totals["workers_replaced"] == 2


@contextmanager
def started(server_url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start a run, and end it with the block whatever happens there."""
    with subprocess.Popen(
        pipeline(server_url, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as driver:
        try:
            yield driver
        finally:
            if driver.poll() is None:
                driver.terminate()


def read_workers(driver: subprocess.Popen[str], names: set[str]) -> dict[str, int]:
    """Read the workers' process numbers from the messages of a run that has just been started."""
    assert driver.stderr
    workers: dict[str, int] = {}
    while workers.keys() != names:
        line = driver.stderr.readline()
        assert line, "the run ended early"
        if found := re.match(r"worker (\S+): process (\d+)", line):
            workers[found[1]] = int(found[2])
    return workers


def wait_until_some_are_counted(http: httpx.Client, queue: str) -> None:
    deadline = time.monotonic() + 60
    while not http.get("/v1/tasks", params={"queue": queue, "archived": "true"}).json()["tasks"]:
        assert time.monotonic() < deadline, "nothing was counted"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_run_leaves_no_worker(server_url: str, number: signal.Signals) -> None:
    with started(server_url, "--count-workers", "2") as driver:
        workers = read_workers(driver, {"hash", "count-1", "count-2"})
        driver.send_signal(number)
        _, errors = driver.communicate(timeout=60)
    assert driver.returncode == 130, errors
    assert "interrupted; unfinished tasks stay in queue files-" in errors
    for process in workers.values():
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


ODD_FILES = {
    b"plain.py": b"one two\nthree\n",
    b"empty.py": b"",
    b"twin.py": b"",
    b"latin-\xe9.py": b"bytes \xff\xfe\x00\n",
    "größe 日本.py".encode(): "größe\u2003日本\n".encode(),
    b"new\nline\n.py": b"a\n",
    b"tab\t\x1f$(touch x) 'quoted\".py": b"a b c\n",
    b"-rf.py": b"x\n",
    b"site-packages/foreign.py": b"not counted\n",
    b"deep/er/more.py": b"\n\n\n",
    b"notes.txt": b"not counted\n",
}


@pytest.fixture
def odd_folder(tmp_path: Path) -> Path:
    for name, content in ODD_FILES.items():
        file = tmp_path / os.fsdecode(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    (tmp_path / "dangling.py").symlink_to("nowhere")
    (tmp_path / "folder.py").mkdir()
    return tmp_path


def test_odd_names_and_contents(server_url: str, odd_folder: Path) -> None:
    totals = run(server_url, "--root", str(odd_folder))
    assert same_totals(totals, independent(odd_folder))
    assert (totals["files"], totals["distinct_hashes"], totals["skipped"]) == (9, 8, [])


def test_queue_can_be_used_again(server_url: str, odd_folder: Path) -> None:
    queue = f"files-{uuid.uuid4().hex[:8]}"
    first, second = (run(server_url, "--root", str(odd_folder), "--queue", queue) for _ in range(2))
    assert first["queue"] == second["queue"] == queue
    assert same_totals(second, independent(odd_folder))


def test_file_gone_before_it_is_hashed_ends_with_the_reason(server_url: str, tmp_path: Path) -> None:
    payload = {"path": str(tmp_path / "gone.py")}
    queue = f"files-{uuid.uuid4().hex[:8]}"
    with httpx.Client(base_url=server_url) as http:
        http.post("/v1/tasks", json={"queue": queue, "payload": payload}).raise_for_status()
        worker = subprocess.Popen(
            [sys.executable, str(PIPELINE / "hash_worker.py"), "--server", server_url, "--queue", queue]
        )
        with worker:
            try:
                wait_until_some_are_counted(http, queue)
            finally:
                worker.terminate()
        assert worker.returncode == 0
        listing = http.get("/v1/tasks", params={"queue": queue, "archived": "true", "include": "result"}).json()
    assert listing["tasks"][0]["result"] == payload | {"error": "No such file or directory"}


def test_file_gone_before_it_is_counted_ends_with_the_reason(tmp_path: Path) -> None:
    payload = {"path": str(tmp_path / "gone.py"), "sha256": "0" * 64}
    done = subprocess.run(
        [str(PIPELINE / "count.sh")], input=json.dumps(payload), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == payload | {"error": "gone or unreadable when it was to be counted"}


def test_without_a_server_the_advice_is_clear() -> None:
    done = subprocess.run(pipeline("http://127.0.0.1:9"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "no corndog server answers at http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
