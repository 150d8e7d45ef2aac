"""Commands as scripts and people use them: against a real server, or none."""

import json
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from corndog.settings import Settings
from tests.command_line import corndog

NOWHERE = "http://127.0.0.1:9"  # the discard port: nobody listens
NO_SUCH_ID = "00000000-0000-7000-8000-000000000000"


class Client:
    """The commands about tasks, with the server's address filled in."""

    def __init__(self, url: str) -> None:
        self.url = url

    def json(self, *arguments: str, stdin: bytes = b"") -> Any:  # noqa: ANN401
        done = corndog(*arguments, "--server", self.url, "--json", stdin=stdin)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    def text(self, *arguments: str) -> str:
        done = corndog(*arguments, "--server", self.url)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, queue: str, *options: str, stdin: bytes = b"") -> str:
        task_id: str = self.json("submit", "--queue", queue, *options, stdin=stdin)["task"]["id"]
        return task_id


@pytest.fixture(scope="module")
def cli(server_url: str) -> Client:
    return Client(server_url)


def test_a_task_from_start_to_end(cli: Client, queue: str) -> None:
    submitted = cli.json("submit", "--queue", queue, "--priority", "7", "--kind", "resize", "--payload", '{"n": 1}')
    task_id = submitted["task"]["id"]

    [taken] = cli.json("next", "--queue", queue, "--worker-id", "me", "--override-timeout", "60")["tasks"]
    assert (taken["id"], taken["delivery"], taken["held_by"]) == (task_id, 1, "me")
    assert (taken["priority"], taken["kind"], taken["payload"]) == (7, "resize", {"n": 1})

    moved = cli.json("update", task_id, "--delivery", "1", "--new-state", "sized", "--target", "sizing")
    assert (moved["task"]["current_state"], moved["task"]["auto_target_state"]) == ("sized", "sizing")

    next_task = json.dumps({"queue": queue, "current_state": "later"})
    completed = cli.json(
        "complete",
        task_id,
        "--state",
        "sized",
        "--result",
        "[1, 2]",
        "--next-task",
        next_task,
        "--next-task",
        next_task,
    )
    assert completed["task"]["phase"] == "completed"
    assert len(completed["next_tasks"]) == 2

    assert cli.json("show", task_id, "--payload")["task"]["result"] == [1, 2]
    assert cli.json("counts", "--queue", queue) == {"queue": queue, "count": 2, "state_counts": {"later": 2}}
    assert cli.json("counts")["queue_and_state_counts"][queue]["count"] == 2


def test_a_submit_under_a_key_is_made_once(cli: Client, queue: str) -> None:
    options = ("--queue", queue, "--idempotency-key", f"key of {queue}")
    submitted = cli.text("submit", *options)
    task_id = submitted.split()[1]
    assert submitted == f"submitted: {task_id} (queue {queue}, ready, submitted)\n"
    assert cli.text("submit", *options) == f"submitted before: {task_id} (queue {queue}, ready, submitted)\n"
    assert cli.json("submit", *options)["replayed"] is True
    other = corndog("submit", *options, "--priority", "1", "--server", cli.url)
    assert (other.returncode, other.stderr) == (
        1, "error: this idempotency key was used for another request (key_in_use)\n",
    )  # fmt: skip


def test_release_cancel_and_time_out(cli: Client, queue: str) -> None:
    task_id = cli.submit(queue)
    cli.json("next", "--queue", queue)
    assert cli.json("release", task_id, "--delivery", "1")["task"]["phase"] == "ready"

    cli.json("next", "--queue", queue)
    assert cli.json("timeout", "--queue", queue, "--at-time", "2100-01-01T00:00:00Z") == {"timed_out": 1}
    assert cli.json("show", task_id)["task"]["lost"] == 1

    assert cli.json("cancel", task_id)["task"]["phase"] == "canceled"
    assert cli.json("cancel", task_id)["replayed"] is True


def test_several_queues_and_tasks_at_once(cli: Client, queue: str) -> None:
    ids = [cli.submit(queue), cli.submit(f"{queue}-b", "--priority", "1")]
    taken = cli.json("next", "--queue", queue, "--queue", f"{queue}-b", "--count", "5")["tasks"]
    assert [task["id"] for task in taken] == ids[::-1]


def test_a_payload_stays_as_it_was_typed(cli: Client, queue: str) -> None:
    number = "123456789012345678901234567890"
    task_id = cli.submit(queue, "--payload", f'{{"z": {number}, "a": 1.50}}')
    shown = corndog("show", task_id, "--payload", "--json", "--server", cli.url).stdout
    assert number in shown
    assert shown.index('"z"') < shown.index('"a"')
    assert "1.50" in shown


def test_a_payload_of_any_bytes(cli: Client, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(bytes(range(256)))
    for options, stdin in (([str(file)], b""), (["-"], file.read_bytes())):
        task_id = cli.submit(queue, "--content-type", "image/png", "--payload-file", *options, stdin=stdin)
        task = cli.json("show", task_id, "--payload")["task"]
        assert task["content_type"] == "image/png"
        assert task["payload_base64"].startswith("AAECAwQF")


def test_what_people_see(cli: Client, queue: str) -> None:
    submitted = cli.text("submit", "--queue", queue, "--payload", '"[bold]hi"')
    task_id = submitted.split()[1]
    assert submitted == f"submitted: {task_id} (queue {queue}, ready, submitted)\n"
    assert task_id in (table := cli.text("next", "--queue", queue))
    assert "submitted-working" in table
    assert "[bold]hi" in table
    assert cli.text("next", "--queue", queue) == f"no task is submitted in {queue}\n"
    assert cli.text("counts", "--queue", queue).split()[-3:] == [queue, "submitted-working", "1"]
    assert "held_by" not in cli.text("cancel", task_id)
    assert "canceled" in cli.text("show", task_id)
    assert cli.text("cancel", task_id).startswith("canceled before: ")
    assert cli.text("counts", "--queue", queue) == "no tasks\n"
    assert cli.text("timeout", "--queue", queue) == "timed out: 0\n"


def test_the_fleet_is_listed_and_drained(cli: Client, queue: str) -> None:
    cli.submit(queue)
    name = f"worker of {queue}"
    [taken] = cli.json("next", "--queue", queue, "--worker-id", name)["tasks"]

    [worker] = [each for each in cli.json("workers")["workers"] if each["worker_id"] == name]
    assert (worker["held"], worker["holds"][0]["id"], worker["draining"]) == (1, taken["id"], False)
    header, *rows = cli.text("workers", "--active-since", "1h").splitlines()
    assert header.split("  ")[0] == "WORKER"
    [row] = [row for row in rows if row.startswith(name)]
    assert row.removeprefix(name).split() == [worker["last_seen"], "active", "1", taken["claim_time"]]

    assert cli.text("drain", name) == f"drains: {name}\n"
    assert "active, draining" in next(row for row in cli.text("workers").splitlines() if row.startswith(name))
    assert cli.json("drain", name, "--undo") == {"workers": [name], "unknown": []}
    assert name in cli.json("drain", "--all")["workers"]
    assert f"drains no more: {name}\n" in cli.text("drain", "--all", "--undo")
    done = corndog("drain", name, f"no {name}", "--server", cli.url)
    assert (done.returncode, done.stdout) == (1, f"drains: {name}\n")
    assert done.stderr == f"error: unknown: no {name}\n"
    cli.json("cancel", taken["id"])


def test_a_refusal_is_told_in_two_lines(cli: Client) -> None:
    done = corndog("show", "not-an-id", "--server", cli.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: a UUID is expected (invalid)\nfield: id\n"


def test_a_refusal_as_json(cli: Client) -> None:
    done = corndog("complete", NO_SUCH_ID, "--state", "submitted", "--json", "--server", cli.url)
    assert done.returncode == 1
    assert json.loads(done.stdout)["code"] == "task_not_found"
    assert done.stderr.startswith("error: ")


def test_no_server() -> None:
    done = corndog("counts", "--server", NOWHERE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: no answer from {NOWHERE}: ")
    assert done.stderr.count("\n") == 1


def test_another_server() -> None:
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever).start()
        refused = corndog("counts", "--server", url)
        page = corndog("counts", "--server", f"{url}/?")
        server.shutdown()
    assert refused.returncode == page.returncode == 1
    assert refused.stderr.endswith("answered 404 File not found\n")
    assert page.stderr == f"error: {url}/? is not a corndog server: it answered 200 without JSON\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("submit", "--no-such-option"),
        ("submit", "--payload", "{not json"),
        ("submit", "--payload", "1", "--payload-file", "-"),
        ("submit", "--payload-file", "/no/such/file"),
        ("submit", "--delay", "soon"),
        ("submit", "--delay", "nan"),
        ("submit", "--queue", "not \udcff UTF-8"),
        ("submit", "--payload", '"not \udcff UTF-8"'),
        ("release", NO_SUCH_ID),
        ("complete", NO_SUCH_ID, "--next-task", "{"),
        ("counts", "--server", "not an address"),
        ("counts", "--server", "localhost:8080"),
        ("drain",),
        ("drain", "w", "--all"),
        ("drain", "--undo"),
        ("dev", "--port", "65536"),
        ("dev", "--workers", "0"),
        ("openapi", "--output", "a", "--check", "b"),
    ],
    ids=lambda arguments: ascii(" ".join(arguments)),
)
def test_a_wrong_call_exits_with_2(arguments: tuple[str, ...]) -> None:
    done = corndog(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_settings_are_listed_one_a_line() -> None:
    lines = corndog("settings").stdout.splitlines()
    listed = json.loads(corndog("settings", "--json").stdout)
    assert all(line == line.rstrip() for line in lines)
    assert len(lines) == 1 + len(listed) == 1 + len(Settings.__struct_fields__)
    assert {"name": "CORNDOG_POOL_SIZE", "default": "10", "meaning": "database connections of one process"} in listed


def test_the_document_is_written_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "openapi.json"
    assert corndog("openapi", "--check", file).returncode == 1
    assert corndog("openapi", "--output", file).returncode == 0
    assert corndog("openapi").stdout == file.read_text()
    assert corndog("openapi", "--check", file).returncode == 0
    file.write_text(file.read_text() + " ")
    done = corndog("openapi", "--check", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"run `corndog openapi --output {file}`" in done.stderr
