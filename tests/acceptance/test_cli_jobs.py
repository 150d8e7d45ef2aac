"""The commands about jobs, dead letters and failed tries, against a real server."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.test_cli import NO_SUCH_ID, Client
from tests.command_line import corndog


@pytest.fixture(scope="module")
def cli(server_url: str) -> Client:
    return Client(server_url)


def diamond(queue: str) -> bytes:
    tasks = [
        {"name": "split"},
        {"name": "left", "depends_on": ["split"]},
        {"name": "right", "depends_on": ["split"]},
        {"name": "merge", "depends_on": ["left", "right"]},
    ]
    return json.dumps({"name": "diamond", "defaults": {"queue": queue, "max_attempts": 1}, "tasks": tasks}).encode()


def submit(cli: Client, body: bytes, *options: str) -> Any:  # noqa: ANN401
    return cli.json("job", "submit", "-", *options, stdin=body)


def fail_next(cli: Client, queue: str, *options: str) -> str:
    [task] = cli.json("next", "--queue", queue, "--worker-id", "me")["tasks"]
    task_id: str = task["id"]
    cli.json("fail", task_id, "--delivery", str(task["delivery"]), *options)
    return task_id


def test_a_job_from_start_to_end(cli: Client, queue: str) -> None:
    made = submit(cli, diamond(queue))
    job_id, ids = made["job"]["id"], made["tasks"]

    for name in ("split", "left", "right", "merge"):
        [task] = cli.json("next", "--queue", queue)["tasks"]
        assert task["name"] == name
        cli.json("complete", task["id"], "--delivery", "1", "--result", f'"of {name}"')

    shown = cli.json("job", "show", job_id)
    assert (shown["job"]["status"], shown["phase_counts"]) == ("completed", {"completed": 4})
    merge = cli.json("show", ids["merge"], "--payload", "--dependencies")["task"]
    assert (merge["result"], merge["dependencies"]["left"]["result"]) == ("of merge", "of left")
    assert "of right" in cli.text("show", ids["merge"], "--dependencies")


def test_jobs_are_listed_by_status_and_name(cli: Client, queue: str) -> None:
    older, newer = (submit(cli, diamond(queue), "--name", f"{queue}-{part}")["job"]["id"] for part in "ab")
    submit(cli, diamond(queue), "--name", f"{queue}-a")

    assert cli.json("job", "list", "--name", f"{queue}-b")["jobs"][0]["id"] == newer
    assert [job["id"] for job in cli.json("job", "list", "--name", f"{queue}-a")["jobs"]][1] == older
    table = cli.text("job", "list", "--name", f"{queue}-a", "--limit", "1").splitlines()
    assert table[0].split() == ["ID", "NAME", "STATUS", "TASKS", "SUBMITTED", "ENDED"]
    assert table[1].split()[1:4] == [f"{queue}-a", "pending", "4"]
    assert table[2] == "… and more: see --limit"
    assert cli.text("job", "list", "--name", f"{queue}-a", "--status", "failed") == "no jobs\n"


def test_a_job_is_canceled_and_revived(cli: Client, queue: str) -> None:
    job_id = submit(cli, diamond(queue))["job"]["id"]

    assert cli.text("job", "cancel", job_id) == f"canceled: {job_id} (diamond, canceled, 4 tasks)\n"
    assert cli.text("job", "cancel", job_id).startswith(f"canceled before: {job_id} ")
    assert "split  canceled  with its job" in cli.text("job", "show", job_id)
    assert cli.text("job", "revive", job_id) == f"revived: {job_id} (diamond, pending, 4 tasks)\n"
    assert cli.json("job", "revive", job_id)["replayed"] is True


def test_a_file_goes_out_as_it_is(cli: Client, queue: str, tmp_path: Path) -> None:
    payload = '{"z": 123456789012345678901234567890,  "a": 1.50, "a": 2}'
    file = tmp_path / "job.json"
    file.write_text(f'{{"tasks": [{{"name": "a", "queue": "{queue}", "payload": {payload}}}]}}')

    for options in ((), ("--name", "given")):
        made = cli.json("job", "submit", str(file), *options)
        assert made["job"]["name"] == (options[1] if options else None)
        shown = corndog("show", made["tasks"]["a"], "--payload", "--server", cli.url).stdout
        assert payload in shown


def test_the_tree(cli: Client, queue: str) -> None:
    job_id = submit(cli, diamond(queue))["job"]["id"]
    cli.json("next", "--queue", queue, "--worker-id", "me")

    assert cli.text("job", "show", job_id).splitlines() == [
        "diamond",
        "└── split  submitted-working  by me",
        "    ├── left  submitted-blocked",
        "    └── right  submitted-blocked",
        "        └── merge  submitted-blocked  after left, right (0 of 2 done)",
        f"{job_id} (diamond, running, 4 tasks): 1 held, 3 parked",
    ]
    assert cli.text("job", "show", job_id, "--depth", "2").splitlines()[-2] == "        └── … 1 more: 1 parked"
    assert cli.text("job", "show", job_id, "--phase", "held").splitlines()[:-1] == [
        "diamond",
        "└── split  submitted-working  by me",
    ]


def test_the_tree_of_a_failed_job(cli: Client, queue: str) -> None:
    job_id = submit(cli, diamond(queue))["job"]["id"]
    fail_next(cli, queue, "--error", "no \x1b[2J way\nat all")

    reason = "the task split, which this one depends on, ended as failed"
    assert cli.text("job", "show", job_id).splitlines()[1:] == [
        "└── split  failed  attempt 1 of 1, no \\x1b[2J way…",
        f"    ├── left  canceled  {reason}",
        f"    └── right  canceled  {reason}",
        f"        └── merge  canceled  {reason}, after left, right (0 of 2 done)",
        f"{job_id} (diamond, failed, 4 tasks): 1 failed, 3 canceled",
    ]


def test_thousands_of_tasks_stay_readable(cli: Client, queue: str) -> None:
    middle = [f"part-{number}" for number in range(2000)]
    tasks = [
        {"name": "split"},
        *({"name": name, "depends_on": ["split"]} for name in middle),
        {"name": "merge", "depends_on": middle},
    ]
    body = json.dumps({"name": "wide", "defaults": {"queue": queue, "max_attempts": 1}, "tasks": tasks}).encode()
    job_id = submit(cli, body)["job"]["id"]
    [split] = cli.json("next", "--queue", queue)["tasks"]
    cli.json("complete", split["id"], "--delivery", "1")
    cli.json("next", "--queue", queue, "--count", "1000")
    [last] = cli.json("next", "--queue", queue, "--worker-id", "unlucky")["tasks"]
    cli.json("fail", last["id"], "--delivery", "1", "--error", "oops")

    lines = cli.text("job", "show", job_id, "--limit", "4").splitlines()

    assert lines[:2] == ["wide", "└── split  completed"]
    assert [line for line in lines if "oops" in line] == ["    ├── part-1000  failed  attempt 1 of 1, oops"]
    assert len([line for line in lines if "submitted-working" in line]) == 2
    assert lines[-2:] == [
        "    └── … 1998 more: 998 held, 1 canceled, 999 ready",
        f"{job_id} (wide, running, 2002 tasks): 1 failed, 1000 held, 1 canceled, 999 ready, 1 completed",
    ]


def test_all_that_is_wrong_with_a_job_is_told(cli: Client) -> None:
    body = b'{"tasks": [{"name": "a", "depends_on": ["b"]}, {"name": "a"}]}'
    done = corndog("job", "submit", "-", "--server", cli.url, stdin=body)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: there is no task 'b' in this job (and 1 more) (invalid_job)",
        "tasks[0].depends_on[0]: there is no task 'b' in this job",
        "tasks[1].name: the name 'a' is given more than once",
    ]


def test_a_failed_try_and_its_history(cli: Client, queue: str) -> None:
    task_id = cli.submit(queue)
    assert cli.text("runs", task_id) == "it was never handed out\n"
    fail_next(cli, queue, "--error", "first", "--retry-in", "0")
    [again] = cli.json("next", "--queue", queue, "--wait", "20")["tasks"]
    assert (again["attempt"], again["last_error"]) == (1, "first")
    assert cli.text("fail", task_id, "--delivery", "2", "--no-retry", "--error", "second\nline").endswith(
        f"(queue {queue}, failed, failed)\n"
    )

    assert [run["error"] for run in cli.json("runs", task_id)["runs"]] == ["first", "second\nline"]
    table = [line.split() for line in cli.text("runs", task_id).splitlines()]
    assert table[0] == ["DELIVERY", "WORKER", "CLAIMED", "ENDED", "OUTCOME", "ERROR"]
    assert (table[1][:2], table[1][-2:]) == (["1", "me"], ["failed", "first"])
    assert table[2][-2:] == ["failed", "second…"]

    assert cli.text("revive", task_id) == f"revived: {task_id} (queue {queue}, ready, submitted)\n"
    assert cli.text("revive", task_id).startswith("revived before: ")
    cli.json("next", "--queue", queue)
    assert "holds it" in cli.text("runs", task_id)


def test_dead_letters_are_listed_and_revived(cli: Client, queue: str) -> None:
    ids = [cli.submit(queue, "--kind", kind, "--max-attempts", "1") for kind in ("a", "a", "b")]
    for _ in ids:
        fail_next(cli, queue, "--error", "disk full\nmore")

    table = cli.text("dead", "list", "--queue", queue).splitlines()
    assert table[0].split() == ["ID", "QUEUE", "STATE", "ATTEMPTS", "FAILED", "ERROR"]
    assert [line.split()[0] for line in table[1:]] == ids
    assert table[1].split()[1:4] == [queue, "submitted", "1/1"]
    assert table[1].endswith("disk full…")
    assert [task["id"] for task in cli.json("dead", "list", "--kind", "b", "--queue", queue)["tasks"]] == ids[2:]
    assert cli.text("dead", "list", "--queue", queue, "--limit", "2").endswith("… and more: see --limit\n")

    assert cli.text("dead", "revive", "--all", "--queue", queue, "--dry-run") == "would revive: 3\n"
    assert cli.text("dead", "revive", ids[0]) == "revived: 1\n"
    assert cli.text("dead", "revive", "--all", "--queue", queue, "--kind", "b") == "revived: 1\n"
    revived = cli.json("dead", "revive", "--all", "--queue", queue)
    assert ([result["id"] for result in revived["results"]], revived["failed"]) == ([ids[1]], 0)
    assert cli.text("dead", "list", "--queue", queue) == "no dead letters\n"
    assert len(cli.json("next", "--queue", queue, "--count", "9")["tasks"]) == 3


def test_more_dead_letters_than_one_call_takes(cli: Client, queue: str) -> None:
    tasks = [{"name": str(number), "queue": queue} for number in range(230)]
    submit(cli, json.dumps({"tasks": tasks}).encode())
    held = cli.json("next", "--queue", queue, "--count", "230")["tasks"]
    with httpx.Client(base_url=cli.url) as http:
        for task in held:
            http.post(f"/v1/tasks/{task['id']}/fail", json={"delivery": 1, "retryable": False}).raise_for_status()

    assert cli.text("dead", "revive", "--all", "--queue", queue, "--dry-run") == "would revive: 230\n"
    assert cli.text("dead", "revive", "--all", "--queue", queue) == "revived: 230\n"
    assert cli.text("dead", "list", "--queue", queue) == "no dead letters\n"


def test_what_can_not_be_revived_is_told(cli: Client, queue: str) -> None:
    task_id = cli.submit(queue)
    [task] = cli.json("next", "--queue", queue)["tasks"]
    cli.json("complete", task_id, "--delivery", str(task["delivery"]))

    done = corndog("dead", "revive", task_id, NO_SUCH_ID, "--server", cli.url)

    assert (done.returncode, done.stderr) == (1, "error: refused: 2\n")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["REFUSED", task_id, NO_SUCH_ID, "revived:"]
    assert lines[2].endswith(f"there is no task {NO_SUCH_ID}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("job",),
        ("job", "submit", "/no/such/file"),
        ("job", "show", NO_SUCH_ID, "--phase", "working"),
        ("job", "show", NO_SUCH_ID, "--limit", "0"),
        ("dead", "revive"),
        ("dead", "revive", NO_SUCH_ID, "--all"),
        ("dead", "revive", NO_SUCH_ID, "--queue", "a"),
        ("fail", NO_SUCH_ID),
        ("fail", NO_SUCH_ID, "--delivery", "1", "--no-retry", "--retry-in", "1"),
    ],
    ids=" ".join,
)
def test_a_wrong_call_exits_with_2(arguments: tuple[str, ...]) -> None:
    done = corndog(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"\xff"'])
def test_a_file_that_is_no_json_object_is_not_sent(body: bytes) -> None:
    done = corndog("job", "submit", "-", stdin=body)
    assert (done.returncode, done.stdout) == (2, "")
    assert "not a JSON object" in done.stderr
