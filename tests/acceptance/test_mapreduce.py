"""The example job: its totals are those of one process, though a worker is killed while it holds a task."""

import json
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers import ROOT

WORDCOUNT = ROOT / "examples" / "mapreduce" / "wordcount.py"
PACKAGE = Path(sysconfig.get_path("stdlib")).resolve() / "json"

pytestmark = pytest.mark.timeout(180)


def wordcount(server_url: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(WORDCOUNT), "--server", server_url, "--json", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def independent(root: Path) -> Counter[str]:
    text = " ".join(file.read_text() for file in root.rglob("*.py"))
    return Counter(re.findall("[a-z]+", text.lower()))


def test_totals_are_right_though_a_worker_is_killed(server_url: str) -> None:
    done = wordcount(server_url, "--root", str(PACKAGE), "--parts", "3", "--workers", "2", "--work-timeout", "3")

    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    expected = independent(PACKAGE)
    assert (report["status"], report["same_as_one_process"]) == ("completed", True)
    assert (report["words"], report["distinct"]) == (expected.total(), len(expected))
    assert list(report["top"].values()) == [count for _, count in expected.most_common(5)]
    assert report["top"] == {word: expected[word] for word in report["top"]}
    with httpx.Client(base_url=server_url) as http:
        lost = http.get(f"/v1/tasks/{report['killed_in']}").json()["task"]
        runs = http.get(f"/v1/tasks/{report['killed_in']}/runs").json()["runs"]
    assert (lost["kind"], lost["phase"], lost["attempt"]) == ("count", "completed", 0)
    assert [run["outcome"] for run in (runs[0], runs[-1])] == ["dead", "succeeded"]
    assert runs[0]["worker_id"] != runs[-1]["worker_id"]


def test_parts_without_files_are_fine(server_url: str, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_bytes(b"One two, one \xff THREE\n")

    done = wordcount(server_url, "--root", str(tmp_path), "--parts", "4", "--no-kill")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["words"], report["top"]) == (4, {"one": 2, "two": 1, "three": 1})
    assert report["killed_in"] is None


def test_without_a_server_the_advice_is_clear() -> None:
    done = wordcount("http://127.0.0.1:9")
    assert done.returncode == 1
    assert "no corndog server answers at http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
