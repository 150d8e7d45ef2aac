"""Get the peers into this folder: nothing is installed elsewhere, and what can't be had is told with its reason."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

FOLDER = Path(__file__).parent
VENV = FOLDER / ".venv"
MODULES = FOLDER / "node_modules"
DEBIAN = FOLDER / ".beanstalkd"
OLDEST_NODE = (22, 18)
"""What graphile-worker asks for; pg-boss needs less."""


class MissingError(Exception):
    """Something can't be had here; the message says what and why."""


def prepare(names: Iterable[str]) -> tuple[dict[str, Path], dict[str, str]]:
    """Get what is wanted: the programs, and the reasons why others are missing."""
    programs: dict[str, Path] = {}
    reasons: dict[str, str] = {}
    for name in sorted(set(names)):
        try:
            programs[name] = SOURCES[name]()
        except MissingError as missing:
            reasons[name] = str(missing)
    return programs, reasons


def python() -> Path:
    """Set up the Python peers' own environment."""
    requirements = FOLDER / "requirements-peers.txt"

    def install() -> None:
        _run(sys.executable, "-m", "venv", "--clear", VENV)
        _run(VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--requirement", requirements)

    _once(VENV, requirements, install)
    return VENV / "bin" / "python"


def node() -> Path:
    """Find a Node.js that is new enough, and install the packages that run on it."""
    with suppress(MissingError):
        python()  # brings a Node.js of its own
    for directory in filter(None, [VENV / "bin", _directory_of("node")]):
        program = directory / "node"
        if program.exists() and _version(program) >= OLDEST_NODE:
            install = partial(_run, directory / "npm", "ci", "--no-audit", "--no-fund", cwd=FOLDER)
            _once(MODULES, FOLDER / "package-lock.json", install)
            return program
    raise MissingError(f"there is no Node.js {'.'.join(map(str, OLDEST_NODE))} or newer")


def beanstalkd() -> Path:
    """Find beanstalkd, or unpack Debian's package of it here, without installing it."""
    if directory := _directory_of("beanstalkd"):
        return directory / "beanstalkd"
    program = DEBIAN / "usr" / "bin" / "beanstalkd"
    if not program.exists():
        if not _directory_of("apt-get"):
            raise MissingError(
                "there is no beanstalkd on the path, and no apt-get to fetch it; PyPI and npm don't have it"
            )
        DEBIAN.mkdir(exist_ok=True)
        _run("apt-get", "download", "beanstalkd", cwd=DEBIAN)
        for package in DEBIAN.glob("*.deb"):
            _run("dpkg-deb", "--extract", package, DEBIAN)
    _run(program, "-v")
    return program


SOURCES: dict[str, Callable[[], Path]] = {"python": python, "node": node, "beanstalkd": beanstalkd}


def _once(target: Path, lock: Path, install: Callable[[], object]) -> None:
    """Install unless that has been done from the same lock file; a half-done installation is begun anew."""
    stamp = target / ".installed"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        install()
        stamp.write_text(wanted)


def _version(node: Path) -> tuple[int, ...]:
    return tuple(map(int, _run(node, "--version").removeprefix("v").split(".")))


def _directory_of(program: str) -> Path | None:
    found = shutil.which(program)
    return Path(found).parent if found else None


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)  # noqa: S603
    except FileNotFoundError as error:
        raise MissingError(f"{error.filename} is missing") from None
    except subprocess.CalledProcessError as error:
        last_words = (error.stderr or error.stdout).strip().splitlines()[-1:]
        raise MissingError(f"`{Path(command[0]).name} {command[1]}` failed: {' '.join(last_words)}") from None
    return done.stdout.strip()
