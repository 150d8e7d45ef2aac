"""The commands of a server: what they ask of their database, and how they begin and end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import asyncpg
import httpx
import pytest
from sqlalchemy import make_url

from corndog.store import migrate
from tests.command_line import Running, alive, corndog, running, wait_until
from tests.servers import free_port, wait_until_ready

NO_DATABASE = "postgresql+asyncpg://me:secret@127.0.0.1:9/corndog"


@pytest.fixture
async def new_database_url(database_admin_url: str) -> AsyncIterator[str]:
    """Give a test a database without any schema."""
    name = f"new_{uuid4().hex[:12]}"
    admin = await asyncpg.connect(database_admin_url)
    await admin.execute(f"CREATE DATABASE {name}")
    url = make_url(database_admin_url).set(drivername="postgresql+asyncpg", database=name)
    yield url.render_as_string(hide_password=False)
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


@pytest.fixture
def settings(database_url: str, redis_url: str) -> dict[str, str]:
    return {"CORNDOG_DATABASE_URL": database_url, "CORNDOG_REDIS_URL": redis_url}


async def execute(url: str, statement: str) -> None:
    database = await asyncpg.connect(url.replace("+asyncpg", ""))
    await database.execute(statement)
    await database.close()


def checks(settings: dict[str, str], exit_code: int) -> dict[str, dict[str, str]]:
    done = corndog("doctor", "--json", settings=settings)
    assert done.returncode == exit_code, done.stderr
    return {check["name"]: check for check in json.loads(done.stdout)}


def test_migrate_twice(new_database_url: str) -> None:
    settings = {"CORNDOG_DATABASE_URL": new_database_url}
    head = migrate.head()
    assert corndog("migrate", settings=settings).stdout == f"the schema was missing, and is {head} now\n"
    assert corndog("migrate", settings=settings).stdout == f"the schema is {head} already\n"
    assert json.loads(corndog("migrate", "--json", settings=settings).stdout) == {"before": head, "now": head}


def test_a_database_of_a_newer_program_is_refused(new_database_url: str) -> None:
    settings = {"CORNDOG_DATABASE_URL": new_database_url}
    assert corndog("migrate", settings=settings).returncode == 0
    asyncio.run(execute(new_database_url, "UPDATE alembic_version SET version_num = '9999'"))
    done = corndog("migrate", settings=settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert "schema can't be brought to" in done.stderr
    assert "9999" in done.stderr


def test_recount(settings: dict[str, str]) -> None:
    url = settings["CORNDOG_DATABASE_URL"]
    assert corndog("recount", settings=settings).returncode == 0  # other tests write past the statements
    assert corndog("recount", settings=settings).stdout == "the counts were right\n"
    assert json.loads(corndog("recount", "--json", settings=settings).stdout) == []
    wrong = "INSERT INTO count_deltas (queue, current_state, tasks) VALUES ('no such', 'ä', 3), ('no such', 'b', -2)"
    asyncio.run(execute(url, wrong))
    done = corndog("recount", settings=settings)
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["QUEUE", "STATE", "CORRECTED", "BY"]
    assert sorted(lines[1:]) == [["no", "such", "b", "+2"], ["no", "such", "ä", "-3"]]
    asyncio.run(execute(url, wrong))
    assert sorted(json.loads(corndog("recount", "--json", settings=settings).stdout), key=str) == [
        {"queue": "no such", "current_state": "b", "tasks": 2},
        {"queue": "no such", "current_state": "ä", "tasks": -3},
    ]
    assert corndog("recount", settings=settings).stdout == "the counts were right\n"


@pytest.mark.parametrize("command", ["serve", "scheduler", "migrate", "recount"])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "CORNDOG_DATABASE_URL is not set"),
        ({"CORNDOG_DATABASE_URL": NO_DATABASE}, "127.0.0.1:9/corndog does not answer: "),
        ({"CORNDOG_DATABASE_URL": "postgresql://me@host/db"}, "it must be one of postgresql+asyncpg"),
        ({"CORNDOG_DATABASE_URL": "no url"}, "CORNDOG_DATABASE_URL is not a database's URL"),
        ({"CORNDOG_DATABASE_URL": f"{NO_DATABASE}?sslmode=disable"}, "unexpected keyword argument 'sslmode'"),
        ({"CORNDOG_DATABASE_URL": "postgresql+asyncpg://me@127.0.0.1:99999/db"}, "port must be 0-65535"),
        ({"CORNDOG_DATABASE_URL": NO_DATABASE, "CORNDOG_POOL_SIZE": "0"}, "CORNDOG_POOL_SIZE"),
        ({"CORNDOG_SERVER": NO_DATABASE}, "CORNDOG_SERVER is not a setting"),
    ],
    ids=["missing", "unreachable", "driver", "malformed", "parameter", "port", "range", "unknown"],
)
def test_what_cannot_work_is_refused(command: str, settings: dict[str, str], reason: str) -> None:
    done = corndog(command, settings=settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_no_server_runs_with_a_wrong_redis_url() -> None:
    done = corndog("serve", settings={"CORNDOG_DATABASE_URL": NO_DATABASE, "CORNDOG_REDIS_URL": "foo"})
    assert (done.returncode, done.stdout) == (1, "")
    assert "CORNDOG_REDIS_URL is not Redis's URL" in done.stderr


@pytest.mark.parametrize("command", ["serve", "scheduler", "recount"])
def test_an_old_schema_is_refused(command: str, new_database_url: str) -> None:
    done = corndog(command, settings={"CORNDOG_DATABASE_URL": new_database_url})
    assert (done.returncode, done.stdout) == (1, "")
    assert "run `corndog migrate`" in done.stderr


def serve(port: int) -> tuple[str, ...]:
    return ("serve", "--port", str(port), "--workers", "2")


@pytest.mark.parametrize("end", [Running.interrupt, Running.terminate], ids=["ctrl-c", "sigterm"])
def test_serve_until_a_signal(settings: dict[str, str], end: Callable[[Running], int]) -> None:
    port = free_port()
    with running(*serve(port), settings=settings) as server:
        assert server.output.readline() == f"listening on http://127.0.0.1:{port}\n".encode()
        wait_until_ready(f"http://127.0.0.1:{port}")
        family = server.family()
        assert len(family) == 3
        assert end(server) == 0
        assert alive(family) == []
        assert server.output.read() == b""


def test_workers_do_not_outlive_a_killed_server(settings: dict[str, str]) -> None:
    port = free_port()
    with running(*serve(port), settings=settings) as server:
        wait_until_ready(f"http://127.0.0.1:{port}")
        family = server.family()
        server.kill()
        wait_until(lambda: not alive(family))


def test_a_port_in_use_is_refused(settings: dict[str, str]) -> None:
    port = free_port()
    with running(*serve(port), settings=settings) as server:
        wait_until_ready(f"http://127.0.0.1:{port}")
        second = corndog(*serve(port), settings=settings)
        assert (second.returncode, second.stdout) == (1, "")
        assert f"can't listen on 127.0.0.1 port {port}: Address already in use" in second.stderr
        assert server.terminate() == 0


def test_an_address_of_another_machine_is_refused(settings: dict[str, str]) -> None:
    for host in ("192.0.2.1", "no-such-host.invalid"):
        done = corndog("serve", "--host", host, settings=settings)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"can't listen on {host} port 8080: " in done.stderr


def test_the_scheduler_releases_what_servers_without_loops_do_not(settings: dict[str, str], queue: str) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running(*serve(port), settings=settings | {"CORNDOG_SCHEDULER": "false"}) as server:
        wait_until_ready(url)
        httpx.post(f"{url}/v1/tasks", json={"queue": queue, "delay": 0.01}).raise_for_status()
        with running("scheduler", settings=settings) as scheduler:
            assert scheduler.output.readline() == b"the loops run\n"
            wait_until(lambda: httpx.post(f"{url}/v1/tasks/next", json={"queue": queue}).json()["tasks"])
            assert scheduler.interrupt() == 0
        assert server.terminate() == 0


def test_the_doctor_finds_nothing(settings: dict[str, str]) -> None:
    found = checks(settings, exit_code=0)
    assert list(found) == ["settings", "database", "isolation", "clock", "schema", "sweep", "redis"]
    assert {check["status"] for check in found.values()} == {"ok"}
    assert "PostgreSQL" in found["database"]["found"]
    assert found["isolation"]["found"] == "read committed"
    table = corndog("doctor", settings=settings)
    assert table.returncode == 0
    assert len(table.stdout.splitlines()) == 1 + len(found)


def test_the_doctor_on_a_database_without_schema_and_redis(new_database_url: str) -> None:
    found = checks({"CORNDOG_DATABASE_URL": new_database_url, "CORNDOG_ISOLATION": "serializable"}, exit_code=1)
    assert found["schema"]["status"] == "fail"
    assert found["schema"]["advice"] == "run `corndog migrate`"
    assert found["isolation"]["found"] == "serializable"
    assert found["redis"]["status"] == "ok"
    assert "slower" in found["redis"]["found"]


def test_the_doctor_without_settings_database_or_redis(settings: dict[str, str]) -> None:
    assert list(checks({}, exit_code=1)) == ["settings"]
    found = checks({"CORNDOG_DATABASE_URL": NO_DATABASE, "CORNDOG_REDIS_URL": "redis://127.0.0.1:9"}, exit_code=1)
    assert {name for name, check in found.items() if check["status"] == "fail"} == {"database"}
    assert found["redis"]["status"] == "warn"
    assert "secret" not in str(found)
    assert checks(settings | {"CORNDOG_REDIS_URL": "nonsense"}, exit_code=1)["redis"]["status"] == "fail"


def test_the_doctor_sees_that_nothing_times_tasks_out(settings: dict[str, str], queue: str) -> None:
    port = free_port()
    with running(*serve(port), settings=settings) as server:
        wait_until_ready(f"http://127.0.0.1:{port}")
        httpx.post(f"http://127.0.0.1:{port}/v1/tasks", json={"queue": queue}).raise_for_status()
        httpx.post(f"http://127.0.0.1:{port}/v1/tasks/next", json={"queue": queue}).raise_for_status()
        assert server.terminate() == 0
    url = settings["CORNDOG_DATABASE_URL"]
    asyncio.run(execute(url, "UPDATE tasks SET due_time = now() - interval '90 seconds' WHERE phase = 'held'"))
    sweep = checks(settings, exit_code=0)["sweep"]
    assert sweep["status"] == "warn"
    assert "overdue for 9" in sweep["found"]
    assert "corndog timeout" in sweep["advice"]
    asyncio.run(execute(url, "DELETE FROM tasks"))
