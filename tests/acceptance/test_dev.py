"""`corndog dev`, as a newcomer meets it: it starts everything, keeps the data, and leaves nothing behind."""

import fcntl
import json
import os
import pty
import shutil
import socket
import subprocess
import tempfile
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest
import redis

from tests.command_line import CORNDOG, LIMIT, Running, alive, corndog, environment, programs_in, running, wait_until


@pytest.fixture
def data_dir() -> Iterator[Path]:
    # Not pytest's own: as root, the system user must get through to it.
    parent = Path(tempfile.mkdtemp(prefix="corndog-", dir="/tmp"))
    parent.chmod(0o755)
    yield parent / "data"
    shutil.rmtree(parent)


@contextmanager
def dev(data_dir: Path, port: int = 0, **settings: str) -> Iterator[tuple[Running, dict[str, str]]]:
    """Run it, and wait until it says where everything is."""
    with running("dev", "--data-dir", data_dir, "--port", str(port), "--json", settings=settings) as command:
        yield command, command.read_json()


@pytest.mark.parametrize("end", [Running.interrupt, Running.terminate], ids=["ctrl-c", "sigterm"])
def test_it_ends_all_it_started_and_finds_the_data_again(data_dir: Path, end: Callable[[Running], int]) -> None:
    with dev(data_dir) as (command, where):
        task_id = submit(where["url"], payload="kept")
        family = command.family()
        assert names(family) >= {"corndog", "postgres", "valkey-server"}
        assert end(command) == 0
        assert alive(family) == []
        assert command.output.read() == b""
    with dev(data_dir) as (command, where):
        shown = corndog("show", task_id, "--payload", "--json", "--server", where["url"])
        assert json.loads(shown.stdout)["task"]["payload"] == "kept"
        assert command.interrupt() == 0


def test_what_it_says_is_true(data_dir: Path) -> None:
    with dev(data_dir) as (command, where):
        assert httpx.get(f"{where['url']}/docs").status_code == 200
        assert httpx.get(f"{where['url']}/readyz").json()["status"] == "ok"
        with redis.Redis.from_url(where["redis_url"]) as client:
            assert client.ping()
        assert where["data_dir"] == str(data_dir)
        settings = {"CORNDOG_DATABASE_URL": where["database_url"], "CORNDOG_REDIS_URL": where["redis_url"]}
        assert corndog("doctor", settings=settings).returncode == 0
        assert command.interrupt() == 0


def test_it_times_tasks_out_and_releases_delayed_ones(data_dir: Path) -> None:
    with dev(data_dir) as (command, where):
        url = where["url"]
        task_id = submit(url, delay=0.01)
        take = {"override_timeout": 0.01}
        wait_until(lambda: httpx.post(f"{url}/v1/tasks/next", json=take).json()["tasks"])
        wait_until(lambda: httpx.get(f"{url}/v1/tasks/{task_id}").json()["task"]["lost"] == 1)
        assert command.interrupt() == 0


def test_it_starts_valkey_again(data_dir: Path) -> None:
    """Redis may vanish at any moment: whoever tries that out must not lose everything else."""
    with dev(data_dir) as (command, where):
        task_id = submit(where["url"])
        [valkey] = [process for process in command.family() if process.name() == "valkey-server"]
        valkey.kill()
        wait_until(lambda: not valkey.is_running() or valkey.status() == psutil.STATUS_ZOMBIE)
        wait_until(lambda: "valkey-server" in names(alive(command.family())))
        wait_until(lambda: httpx.get(f"{where['url']}/readyz").json()["status"] == "ok")
        [task] = httpx.post(f"{where['url']}/v1/tasks/next", json={}).json()["tasks"]
        assert task["id"] == task_id
        assert command.interrupt() == 0


def test_in_a_terminal(data_dir: Path) -> None:
    """Ctrl-C is typed; what is printed can be tried by hand."""
    screen, terminal = pty.openpty()
    with subprocess.Popen(
        [CORNDOG, "dev", "--data-dir", data_dir, "--port", "0"],
        env=environment({"TERM": "xterm", "COLUMNS": "60"}),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - makes it the terminal's owner
    ) as process:
        os.close(terminal)
        shown = read_screen(screen, until="Ctrl-C stops all of it")
        family = Running(process).family()
        [curl] = [line.strip() for line in shown.splitlines() if line.startswith("  curl ")]
        answer = subprocess.run(curl, shell=True, capture_output=True, check=True)
        assert json.loads(answer.stdout)["task"]["current_state"] == "submitted"
        os.write(screen, b"\x03")
        read_screen(screen, until="stopped")
        assert process.wait(LIMIT) == 0
    os.close(screen)
    assert alive(family) == []


def test_a_second_one_on_the_same_data_is_refused(data_dir: Path) -> None:
    with dev(data_dir) as (command, where):
        second = corndog("dev", "--data-dir", data_dir, "--port", "0")
        assert (second.returncode, second.stdout) == (1, "")
        assert f"{data_dir} is in use by process {command.process.pid}" in second.stderr
        assert httpx.get(f"{where['url']}/readyz").json()["status"] == "ok"
        assert command.interrupt() == 0


def test_a_port_in_use_is_refused_before_anything_starts(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = corndog("dev", "--data-dir", data_dir, "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"can't listen on 127.0.0.1 port {port}: Address already in use" in done.stderr
    assert not data_dir.exists()


def test_after_sigkill_the_next_one_starts_on_the_same_port(data_dir: Path) -> None:
    with dev(data_dir) as (command, where):
        task_id = submit(where["url"])
        family = command.family()
        command.kill()
    with dev(data_dir, int(where["url"].rsplit(":")[-1])) as (command, where):
        assert alive(family) == []
        assert httpx.get(f"{where['url']}/v1/tasks/{task_id}").status_code == 200
        assert command.interrupt() == 0


@pytest.mark.parametrize("part", ["initdb", "postgres", "valkey-server", "serve"])
def test_ctrl_c_while_starting_leaves_nothing_behind(data_dir: Path, part: str) -> None:
    with running("dev", "--data-dir", data_dir, "--port", "0") as command:
        wait_until(lambda: find(command, part))
        family = command.family()
        assert command.interrupt() == 0
        assert command.output.read() == b"stopped\n"
    assert alive(family) == []
    assert programs_in(data_dir) == []


@pytest.mark.parametrize("part", ["postgres", "serve", "worker"])
def test_it_ends_if_a_part_ends(data_dir: Path, part: str) -> None:
    # Without its database the server tries for this long to say goodbye to it.
    with dev(data_dir, CORNDOG_RETRY_DEADLINE="1") as (command, _):
        family = command.family()
        victim = find(command, "serve")[-1] if part == "worker" else find(command, part)[0]
        victim.kill()
        assert command.process.wait(LIMIT) == 1
    assert alive(family) == []
    assert programs_in(data_dir) == []


def test_other_servers_in_the_environment_are_not_used(data_dir: Path) -> None:
    elsewhere = "postgresql+asyncpg://127.0.0.1:9/elsewhere"
    with dev(data_dir, CORNDOG_DATABASE_URL=elsewhere, CORNDOG_CLEANUP_INTERVAL="3600") as (command, where):
        assert where["database_url"] != elsewhere
        assert command.interrupt() == 0


def test_what_cannot_work_is_refused(data_dir: Path) -> None:
    data_dir.touch()
    for settings, reason in (({}, f"can't keep data in {data_dir}"), ({"CORNDOG_NONSENSE": "1"}, "is not a setting")):
        done = corndog("dev", "--data-dir", data_dir, "--port", "0", settings=settings)
        assert (done.returncode, done.stdout) == (1, "")
        assert reason in done.stderr
        assert "Traceback" not in done.stderr


def find(command: Running, part: str) -> list[psutil.Process]:
    """Find the processes of a part: programs by their names, our own by their arguments; parents come first."""
    found = []
    for process in command.family()[1:]:
        with suppress(psutil.NoSuchProcess):
            if process.name() == part or part in process.cmdline():
                found.append(process)
    return found


def names(processes: list[psutil.Process]) -> set[str]:
    return {process.name() for process in processes}


def submit(url: str, **fields: object) -> str:
    task_id: str = httpx.post(f"{url}/v1/tasks", json=fields).raise_for_status().json()["task"]["id"]
    return task_id


def read_screen(screen: int, until: str) -> str:
    shown = ""
    while until not in shown:
        shown += os.read(screen, 65536).decode()
    return shown
