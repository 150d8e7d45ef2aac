"""The data directory: where it is, one owner at a time, and a place for sockets."""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corndog.embedded.errors import EmbeddedError

SYSTEM_DATA_DIR = Path("/var/lib/corndog")
LONGEST_SOCKET_DIRECTORY = 85  # a socket's whole path may have 107 bytes on Linux, 103 on macOS
PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)  # what needs no quoting in a URL or a configuration


def default_data_dir() -> Path:
    """Choose where the data live if nobody says so."""
    if os.geteuid() == 0:
        return SYSTEM_DATA_DIR
    state_home = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state_home if state_home.is_absolute() else Path.home() / ".local" / "state") / "corndog"


@contextmanager
def sole_owner(data_dir: Path) -> Iterator[None]:
    """Hold the data directory for the time of the block; make it if need be.

    Raises:
        EmbeddedError: another process holds it, or it can't be written.

    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / "lock").open("a+")
    except OSError as error:
        raise EmbeddedError(f"can't keep data in {data_dir}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise EmbeddedError(
                f"{data_dir} is in use by process {lock.read().strip()}; stop it, or choose another data directory"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


@contextmanager
def socket_directory(data_dir: Path) -> Iterator[Path]:
    """Make a private directory for sockets, with a path that is short and plain enough for sockets and URLs.

    Raises:
        EmbeddedError: it can't be made.

    """
    directory = data_dir / "run"
    if len(os.fsencode(directory)) > LONGEST_SOCKET_DIRECTORY or not PLAIN_PATH.fullmatch(str(directory)):
        # The same place each time: what a killed run leaves there is found by the next.
        name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
        directory = Path("/tmp") / f"corndog-{name}"  # noqa: S108 - TMPDIR may be long, too
    shutil.rmtree(directory, ignore_errors=True)
    try:
        directory.mkdir(mode=0o700)
    except OSError as error:
        raise EmbeddedError(f"can't make {directory} for sockets: {error.strerror}") from None
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
