"""What is counted: the words of source files. Used by the workers, and by the count that theirs must equal."""

import re
import sysconfig
from collections import Counter
from pathlib import Path

FOREIGN_FOLDERS = {"site-packages", "dist-packages"}  # inside the standard library's folder, and no part of it
WORD = re.compile(r"[a-z]+")


def standard_library() -> Path:
    """Return the folder that holds the standard library of this Python."""
    return Path(sysconfig.get_path("stdlib")).resolve()


def list_files(root: Path, limit: int | None) -> list[str]:
    """List the `.py` files below a folder, by path."""
    found = (path for path in root.rglob("*.py") if path.is_file() and FOREIGN_FOLDERS.isdisjoint(path.parts))
    return sorted(map(str, found))[:limit]


def count_words(paths: list[str]) -> Counter[str]:
    """Count each word of some files."""
    counts: Counter[str] = Counter()
    for path in paths:
        counts.update(WORD.findall(Path(path).read_text(encoding="utf-8", errors="replace").lower()))
    return counts
