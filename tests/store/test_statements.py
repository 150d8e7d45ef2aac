"""Each named statement keeps to what CockroachDB and PostgreSQL have in common, as far as its text shows."""

import re
from pathlib import Path

import pytest

from corndog.store.schema import metadata
from corndog.store.statements import load, names
from tests.servers import ROOT

SQL = ROOT / "corndog" / "store" / "sql"
TABLED = {
    "list": ["tasks", "archived_tasks"],
    "list_of_job": ["tasks", "archived_tasks"],
    "content": ["payloads", "results"],
}
STATEMENTS = [(name, table) for name in names() for table in TABLED.get(name, [""])]
LOCK_FREE = {"ready_heads", "ready_windows", "still_ready", "claimed_by"}
"""What a claim reads on CockroachDB, where a scan that skips locked rows locks too much."""

FORBIDDEN = {
    "advisory locks": r"advisory",
    "notifications": r"\b(LISTEN|NOTIFY|UNLISTEN)\b",
    "schema changes": r"\b(CREATE|ALTER|DROP|TRUNCATE)\b",
    "grouping sets": r"\b(GROUPING SETS|CUBE|ROLLUP)\b",
    "clocks that move, or stand still for a whole transaction": r"\b(now|clock_timestamp|current_timestamp)\b",
    "division": r"/",
    "JSON operators on payloads": r"jsonb",
    "what is left to fill in": r"[{}]",
}
MODIFICATION = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) ([a-z_]+)")


@pytest.fixture(params=STATEMENTS, ids=lambda statement: "-".join(filter(None, statement)))
def statement(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Give each named statement with its name."""
    name, table = request.param
    return name, load(name, table)


def test_says_what_it_does(statement: tuple[str, str]) -> None:
    text = (SQL / f"{statement[0]}.sql").read_text()
    assert re.match(r"-- [A-Z][^\n]+", text)
    assert ";" not in statement[1]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_has_nothing_that_one_engine_lacks(statement: tuple[str, str], what: str) -> None:
    sql = statement[1].replace("ARRAY[]", "")
    assert not re.search(FORBIDDEN[what], sql, re.IGNORECASE)


def test_modifies_a_table_once(statement: tuple[str, str]) -> None:
    modified = [table for table in MODIFICATION.findall(statement[1]) if table in metadata.tables]
    assert len(modified) == len(set(modified))


def test_casts_every_bind(statement: tuple[str, str]) -> None:
    sql = statement[1]
    used = {int(number) for number in re.findall(r"\$(\d+)", sql)}
    assert used == set(range(1, len(used) + 1))
    assert not re.findall(r"\$\d+(?!\d|::)", sql)


def test_updates_and_deletes_repeat_their_rule(statement: tuple[str, str]) -> None:
    """Ids that were selected before are candidates, no more."""
    for change in re.finditer(r"\b(?:UPDATE tasks|DELETE FROM tasks)\b(.*?)\bRETURNING\b", statement[1], re.DOTALL):
        rule = change.group(1).rpartition("WHERE t.id")[2]
        assert "t.phase" in rule


def test_whatever_moves_tasks_counts_them(statement: tuple[str, str]) -> None:
    moves = re.search(
        r"INSERT INTO tasks\b|DELETE FROM tasks\b|UPDATE tasks\b(?:(?!RETURNING).)*\bcurrent_state =",
        statement[1],
        re.DOTALL,
    )
    assert bool(moves) == ("INSERT INTO count_deltas" in statement[1]) or statement[0] == "correct_counts"


def test_cockroach_claims_lock_no_more_than_they_take(statement: tuple[str, str]) -> None:
    if statement[0] in LOCK_FREE:
        assert "FOR UPDATE" not in statement[1]


def test_locks_are_taken_in_order_or_skipped(statement: tuple[str, str]) -> None:
    for before in re.split(r"FOR UPDATE", statement[1])[:-1]:
        assert "ORDER BY" in before[before.rindex("SELECT") :]


def test_every_statement_and_fragment_is_used() -> None:
    code = "".join(path.read_text() for path in (ROOT / "corndog").rglob("*.py"))
    assert [name for name in names() if f'load("{name}"' not in code] == []
    files = "".join(path.read_text() for path in SQL.rglob("*.sql"))
    assert [path.stem for path in (SQL / "fragments").iterdir() if not re.search(rf"{{{path.stem}[:}}]", files)] == []


def test_statements_stand_in_files() -> None:
    verb = re.compile(r"""["'](SELECT|INSERT|UPDATE|DELETE|WITH) """)
    with_sql = {
        str(path.relative_to(ROOT)) for path in (ROOT / "corndog").rglob("*.py") if verb.search(Path(path).read_text())
    }
    # What doctor and bench ask of a database is no statement of the store.
    assert {path for path in with_sql if not path.startswith("corndog/bench/")} <= {"corndog/cli/doctor.py"}
