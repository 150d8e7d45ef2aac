"""clients/shell/worker.sh against the real server, partly through a proxy that loses answers."""

import itertools
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.shell_worker import WORKER, Gate, Proxy, Queue, command_line, run_worker, started, wait_for_log, wait_until

ALL_BYTES = bytes(range(256)) * 3


@pytest.fixture
def queue(server_url: str) -> Iterator[Queue]:
    with httpx.Client(base_url=server_url, timeout=30) as http:
        yield Queue(http)


# ---------------------------------------------------------------- what goes in and what comes out


def test_payload_and_result_are_the_very_bytes(server_url: str, queue: Queue) -> None:
    task_id = queue.submit_raw(ALL_BYTES, "application/x-anything")
    run_worker(server_url, queue, "--once", "--output-type", "image/x-odd", "cat")
    assert queue.task(task_id)["phase"] == "completed"
    assert queue.bytes_of(task_id, "result") == (ALL_BYTES, "image/x-odd")


def test_json_is_not_rewritten(server_url: str, queue: Queue) -> None:
    text = b'{"big": 12345678901234567890123,  "twice": 1, "twice": 2, "tiny": 1.10e-3, "esc": "\\u00e9"}'
    body = b'{"queue": "%s", "payload": %s}' % (queue.name.encode(), text)
    answer = queue.http.post("/v1/tasks", content=body, headers={"Content-Type": "application/json"})
    run_worker(server_url, queue, "--once", "--output-type", "application/json", "cat")
    content, media_type = queue.bytes_of(answer.json()["task"]["id"], "result")
    assert (content, media_type.partition(";")[0]) == (text, "application/json")


def test_without_a_payload_stdin_is_empty(server_url: str, queue: Queue) -> None:
    task_id = queue.submit()
    run_worker(server_url, queue, "--once", "wc", "-c")
    assert queue.bytes_of(task_id, "result")[0].strip() == b"0"


def test_environment_names_the_task(server_url: str, queue: Queue) -> None:
    task_id = queue.submit(kind="größe \\n 'x'", current_state="new state", payload=None)
    run_worker(server_url, queue, "--once", "--state", "new state", "env")
    environment = dict(line.split("=", 1) for line in queue.bytes_of(task_id, "result")[0].decode().splitlines())
    assert {name: value for name, value in environment.items() if name.startswith("TASK_")} == {
        "TASK_ID": task_id,
        "TASK_QUEUE": queue.name,
        "TASK_KIND": "größe \\n 'x'",
        "TASK_STATE": "new state",
        "TASK_DELIVERY": "1",
        "TASK_CONTENT_TYPE": "application/json",
    }


def test_until_empty_works_off_several_queues(server_url: str, queue: Queue) -> None:
    other = Queue(queue.http)
    ids = [q.submit(payload=n) for q in (queue, other) for n in range(4)]
    run_worker(server_url, queue, "--queue", other.name, "--count", "3", "--until-empty", "cat")
    assert {queue.task(task_id)["phase"] for task_id in ids} == {"completed"}


# ---------------------------------------------------------------- what becomes of the task


def test_next_state_moves_the_task_with_stdout_as_payload(server_url: str, queue: Queue) -> None:
    task_id = queue.submit(payload="old", priority=7)
    run_worker(server_url, queue, "--once", "--next-state", "shrunk", "--output-type", "text/plain", "printf", "new")
    task = queue.task(task_id)
    assert (task["phase"], task["current_state"], task["auto_target_state"]) == (
        "ready",
        "shrunk",
        "shrunk-working",
    )
    assert task["priority"] == 7
    content, media_type = queue.bytes_of(task_id, "payload")
    assert (content, media_type.partition(";")[0]) == (b"new", "text/plain")


def test_next_state_can_keep_the_payload(server_url: str, queue: Queue) -> None:
    task_id = queue.submit(payload="old")
    run_worker(server_url, queue, "--once", "--next-state", "seen", "--keep-payload", "echo", "dropped")
    assert queue.task(task_id)["current_state"] == "seen"
    assert queue.bytes_of(task_id, "payload")[0] == b'"old"'


def test_failing_command_releases_for_a_while(server_url: str, queue: Queue) -> None:
    task_id = queue.submit()
    log = run_worker(server_url, queue, "--once", "--retry-delay", "60", "sh", "-c", "exit 3")
    assert f"task {task_id}: the command failed with status 3; released for 60 s" in log
    task = queue.task(task_id)
    assert (task["phase"], task["current_state"], task["attempt"]) == ("parked", "submitted-scheduled", 0)


def test_failed_task_is_tried_again(server_url: str, queue: Queue) -> None:
    task_id = queue.submit()
    script = "[ $TASK_DELIVERY -ge 3 ] && echo $TASK_DELIVERY"
    with started(server_url, queue, "--retry-delay", "0.1", "sh", "-c", script):
        wait_until(lambda: queue.task(task_id)["phase"] == "completed")
    assert queue.bytes_of(task_id, "result")[0] == b"3\n"


@pytest.mark.parametrize("output", ["", "1 2", '{"a": 1', '1,"next_task":{}'])
def test_output_that_should_be_json_and_is_not(server_url: str, queue: Queue, output: str) -> None:
    task_id = queue.submit()
    log = run_worker(server_url, queue, "--once", "--output-type", "application/json", "printf", "%s", output)
    assert f"task {task_id}: stdout is not one JSON value" in log
    assert queue.task(task_id)["phase"] == "parked"


def test_refused_outcome_is_released(server_url: str, queue: Queue) -> None:
    task_id = queue.submit()
    log = run_worker(server_url, queue, "--once", "head", "-c", "17000000", "/dev/zero")
    assert f"task {task_id}: the outcome was refused (HTTP 413" in log
    assert queue.task(task_id)["phase"] == "parked"


def test_late_outcome_is_dropped_and_the_worker_goes_on(server_url: str, queue: Queue) -> None:
    task_id = queue.submit()
    sweep = f"""[ $TASK_DELIVERY != 1 ] || curl --silent --fail {server_url}/v1/cleanup-timed-out \
        -H 'Content-Type: application/json' -d '{{"at_time": "2099-01-01T00:00:00Z", "queue": "{queue.name}"}}'
        echo "by $TASK_DELIVERY" """
    log = run_worker(server_url, queue, "--until-empty", "sh", "-c", sweep)
    assert f"task {task_id}: no longer ours, the outcome is dropped (HTTP 409" in log
    assert queue.task(task_id)["phase"] == "completed"
    assert queue.bytes_of(task_id, "result")[0] == b"by 2\n"


# ---------------------------------------------------------------- signals


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_lets_the_command_finish(server_url: str, queue: Queue, gate: Gate, number: signal.Signals) -> None:
    task_id, unbegun = queue.submit(), queue.submit()
    with started(server_url, queue, "--count", "2", *gate.command) as worker:
        gate.wait_for_command()
        worker.send_signal(number)
        wait_for_log(worker, "stopping; the running command has 20 s to finish")
        gate.let_go()
        assert worker.wait(timeout=30) == 0
    assert queue.task(task_id)["phase"] == "completed"
    assert queue.bytes_of(task_id, "result")[0] == b"done\n"
    assert (queue.task(unbegun)["phase"], queue.task(unbegun)["current_state"]) == ("ready", "submitted")


@pytest.mark.parametrize(("grace", "second_signal"), [("0.2", False), ("60", True)])
def test_command_that_does_not_finish_is_ended(
    server_url: str, queue: Queue, gate: Gate, grace: str, second_signal: bool
) -> None:
    task_id = queue.submit()
    with started(server_url, queue, "--grace", grace, *gate.command) as worker:
        gate.wait_for_command()
        worker.terminate()
        wait_for_log(worker, "stopping")
        while second_signal and worker.poll() is None:  # again, as one that comes during the first is lost
            worker.terminate()
            time.sleep(0.05)
        assert worker.wait(timeout=30) == 0
    assert (queue.task(task_id)["phase"], queue.task(task_id)["attempt"]) == ("ready", 0)
    assert not gate.someone_waits()


def test_idle_worker_ends_at_once(server_url: str, queue: Queue) -> None:
    marker = queue.submit()
    with started(server_url, queue, "--poll", "3600", "true") as worker:
        wait_until(lambda: queue.task(marker)["phase"] == "completed")
        worker.terminate()
        assert worker.wait(timeout=10) == 0


# ---------------------------------------------------------------- a server that isn't always there


@pytest.fixture
def proxy(server_url: str) -> Iterator[Proxy]:
    with Proxy(server_url).running() as proxy:
        yield proxy


def test_lost_answer_to_a_completion_is_asked_for_again(proxy: Proxy, queue: Queue) -> None:
    task_id = queue.submit()
    proxy.lose_answers_of = "/complete"
    log = run_worker(proxy.url, queue, "--once", "echo", "done")
    assert "no answer from" in log
    assert "no longer ours" not in log
    assert [path for _, path in proxy.seen].count(f"/v1/tasks/{task_id}/complete") == 2
    assert queue.bytes_of(task_id, "result")[0] == b"done\n"


def test_server_comes_late(server_url: str, queue: Queue) -> None:
    task_id = queue.submit()
    with Proxy(server_url).running() as gone:
        port = gone.server_port
    with started(gone.url, queue, "cat") as worker:
        wait_for_log(worker, "Failed to connect")
        with Proxy(server_url, port).running():
            wait_until(lambda: queue.task(task_id)["phase"] == "completed")


def test_server_that_cannot_answer_is_not_hammered(proxy: Proxy, queue: Queue) -> None:
    queue.submit()
    proxy.answer_with = 503
    worker = subprocess.run(
        command_line(proxy.url, queue, "--patience", "1", "cat"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert worker.returncode == 1
    assert "giving up: the server has been away for 1 s (HTTP 503)" in worker.stderr
    assert len(proxy.seen) <= 4


def test_empty_queue_is_not_hammered(proxy: Proxy, queue: Queue) -> None:
    with started(proxy.url, queue, "--poll", "0.2", "cat"):
        wait_until(lambda: len(proxy.seen) >= 4)
    times = [at for at, _ in proxy.seen]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.1


# ---------------------------------------------------------------- wrong use


def test_refused_pull_ends_the_worker(server_url: str, queue: Queue) -> None:
    arguments = command_line(server_url, queue, "--state", "x" * 300, "cat")
    worker = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert worker.returncode == 1
    assert "refuses to hand out tasks (HTTP 400" in worker.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a COMMAND is missing"),
        (["--frobnicate", "cat"], "--frobnicate isn't an option"),
        (["--queue"], "--queue needs a value"),
        (["--count", "0", "cat"], "--count takes a whole number"),
        (["--retry-delay", "-1", "cat"], "--retry-delay takes a number of seconds"),
        (["--poll", "0", "cat"], "--poll takes 0.05 or more"),
        (["--keep-payload", "cat"], "--keep-payload needs --next-state"),
        (["no-such-program"], "no program 'no-such-program'"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], message: str) -> None:
    worker = subprocess.run([str(WORKER), *arguments], capture_output=True, text=True, timeout=10, check=False)
    assert worker.returncode == 2
    assert message in worker.stderr


def test_help_names_every_option() -> None:
    text = subprocess.run([str(WORKER), "--help"], capture_output=True, text=True, timeout=10, check=True).stdout
    parser = re.search(r"^parse_options\(\) \{$(.*?)^\}$", WORKER.read_text(), re.MULTILINE | re.DOTALL)
    assert parser
    options = set(re.findall(r"(?<!\S)--[a-z-]+", parser[1]))
    assert len(options) > 10
    assert options <= set(re.findall(r"--[a-z-]+", text))
