"""Which files the pipeline works on, and how a path travels in a payload."""

import os
import sysconfig
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Installed packages live inside the standard library's folder without being part of it.
FOREIGN_FOLDERS = frozenset({b"site-packages", b"dist-packages"})


def standard_library() -> Path:
    """Return the folder that holds the standard library of this Python."""
    return Path(sysconfig.get_path("stdlib")).resolve()


def find_python_files(root: Path, on_error: Callable[[OSError], object]) -> list[bytes]:
    """List every regular `.py` file below the root, by path; a folder that can't be read is told to `on_error`."""
    found: list[bytes] = []
    for folder, subfolders, names in os.walk(os.fsencode(root), onerror=on_error):
        subfolders[:] = [name for name in subfolders if name not in FOREIGN_FOLDERS]
        paths = (os.path.join(folder, name) for name in names if name.endswith(b".py"))  # noqa: PTH118
        found.extend(path for path in paths if os.path.isfile(path) and not os.path.islink(path))  # noqa: PTH113, PTH114
    return sorted(found)


def to_payload(path: bytes) -> dict[str, Any]:
    """Write a path as JSON: as text where it is UTF-8, else (a file name may be any bytes) as base64."""
    try:
        return {"path": path.decode()}
    except UnicodeDecodeError:
        return {"path_base64": b64encode(path).decode()}


def from_payload(payload: dict[str, Any]) -> bytes:
    """Read back what `to_payload` wrote."""
    if "path" in payload:
        return str(payload["path"]).encode()
    return b64decode(payload["path_base64"])


def printable(path: bytes) -> str:
    """Write a path so that any terminal and any JSON reader can take it."""
    text = os.fsdecode(path)
    return text if text.isprintable() else ascii(text)[1:-1]
