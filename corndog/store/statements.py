"""The named statements: each is a file `sql/<name>.sql` that opens with a comment saying what it does.

A `{fragment}` in a file stands for the text of `sql/fragments/<fragment>.sql`, and `{fragment:name}` for the same with
`name` in the place of its `{of}`; `{table}` for a table's name where one statement serves two tables of the same shape.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TypeAlias

Column: TypeAlias = Sequence[object] | None

_SQL = files("corndog.store") / "sql"
_PLACEHOLDER = re.compile(r"\{(\w+)(?::(\w+))?\}")


@cache
def load(name: str, table: str = "") -> str:
    """Read a named statement with its fragments filled in, without its comments."""

    def fill(found: re.Match[str]) -> str:
        fragment, of = found.groups()
        if fragment == "table":
            return table
        text = (_SQL / "fragments" / f"{fragment}.sql").read_text().rstrip()
        return expand(text.replace("{of}", of) if of else text)

    def expand(text: str) -> str:
        return _PLACEHOLDER.sub(fill, text)

    lines = (_SQL / f"{name}.sql").read_text().splitlines()
    return expand("\n".join(line for line in lines if not line.startswith("--")))


def sparse(values: Sequence[object]) -> Column:
    """Give a column of a group, for `unnest`: NULL where it says nothing, which costs nothing to pass."""
    return values if any(value is not None for value in values) else None


def names() -> list[str]:
    """List all named statements."""
    return sorted(path.name.removesuffix(".sql") for path in _SQL.iterdir() if path.name.endswith(".sql"))
