"""How the database would run the store's own statements: their plans, custom and generic, and what those cost."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

import msgspec

from corndog.store.engine import Connection

Call = Callable[[Connection], Awaitable[object]]

LOAD = """
    INSERT INTO {table} (
        id, queue, kind, current_state, auto_target_state, phase, home_state, home_target, rank,
        submit_time, update_time, work_timeout, timeout, due_time, delivery, held_by, claim_time, attempt,
        max_attempts, backoff, backoff_max, backoff_multiplier, jitter, lost, max_lost, waiting_on{columns}
    )
    SELECT
        gen_random_uuid(), 'queue ' || n % 5, 'kind ' || n % 3, {state}, 'target', {phase}, 'a', 'a-working', n % 3,
        now() - n * interval '1 second', now(), NULL, {timeout}, {due_time}, {delivery}, {held_by}, {claim_time}, 0, 3,
        interval '5 seconds', interval '1 hour', 2, 'full', 0, {max_lost}, 0{values}
    FROM generate_series({first}, {last}) AS n
"""
NONE = {
    "table": "tasks", "columns": "", "values": "", "timeout": "NULL", "due_time": "NULL", "delivery": "0",
    "held_by": "NULL", "claim_time": "NULL", "max_lost": "NULL",
}  # fmt: skip
HOLD = {
    "state": "'a-working'", "phase": "'held'", "timeout": "interval '1 hour'", "delivery": "1",
    "held_by": "'worker ' || n % 20", "claim_time": "now() - interval '1 day'", "columns": ", write_token",
    "values": ", gen_random_uuid()",
}  # fmt: skip
READY = {"state": "'a'", "phase": "'ready'"}
KINDS: dict[str, dict[str, str]] = {
    "ready": READY,
    "held": HOLD | {"due_time": "now() + interval '1 hour'"},
    "overdue": HOLD | {"due_time": "now() - n * interval '1 second'"},
    "dead": HOLD | {"due_time": "now() - n * interval '1 second'", "max_lost": "1"},
    "parked": {"state": "'a-scheduled'", "phase": "'parked'", "due_time": "now() + interval '1 hour'"},
    "due": {"state": "'a-scheduled'", "phase": "'parked'", "due_time": "now() - n * interval '1 second'"},
    "completed": {
        "table": "archived_tasks", "state": "'completed'", "phase": "'completed'",
        "columns": ", outcome, next_task_ids", "values": ", 'succeeded', '{}'",
    },
    "failed": {
        "table": "archived_tasks", "state": "'failed'", "phase": "'failed'",
        "columns": ", outcome, next_task_ids", "values": ", 'dead', '{}'",
    },
    **{
        f"of_{jobs}": {
            "table": "archived_tasks", "state": "'completed'", "phase": "'completed'",
            "columns": ", outcome, next_task_ids, job_id, name",
            "values": f", 'succeeded', '{{}}', md5('{jobs} ' || n / 4)::uuid, 'name'",
        } for jobs in ("jobs", "other_jobs")
    },
}  # fmt: skip
CONTENTS = """
    INSERT INTO payloads SELECT id, 'x', 'text/plain', false FROM tasks ON CONFLICT (id) DO NOTHING;
    INSERT INTO payloads SELECT id, 'x', 'text/plain', false FROM archived_tasks ON CONFLICT (id) DO NOTHING;
    INSERT INTO results SELECT id, 'x', 'text/plain', false FROM archived_tasks ON CONFLICT (id) DO NOTHING;
    INSERT INTO task_runs SELECT id, 7, 'w', now(), now(), 'moved' FROM tasks ON CONFLICT DO NOTHING;
    INSERT INTO jobs
        SELECT job_id, NULL, 'completed', min(submit_time), min(submit_time), min(submit_time), count(*), NULL
        FROM archived_tasks WHERE job_id IS NOT NULL GROUP BY job_id ON CONFLICT DO NOTHING;
    INSERT INTO task_dependencies
        SELECT id, md5(id::text)::uuid, true, false
        FROM archived_tasks WHERE job_id IS NOT NULL ON CONFLICT DO NOTHING;
    INSERT INTO jobs (id, status, submit_time, update_time, task_count)
    SELECT md5(n::text)::uuid, 'running', now() - n * interval '1 second', now(), 1
    FROM generate_series(1, 2000) AS n
    ON CONFLICT (id) DO NOTHING;
    INSERT INTO idempotency_keys
    SELECT 'key ' || n, 'r', NULL, ARRAY[gen_random_uuid()], NULL, now() + n * interval '1 minute', false
    FROM generate_series(-100, 2000) AS n
    ON CONFLICT (key) DO NOTHING;
"""


async def load(connection: Connection, analyze: bool = True, /, **numbers: int) -> None:
    """Put in so many tasks of each kind, with payloads, results and runs."""
    for kind, number in numbers.items():
        await connection.execute(LOAD.format(**{**NONE, **KINDS[kind], "first": 1, "last": number}))
    await connection.execute(CONTENTS)
    await connection.execute("VACUUM (ANALYZE)" if analyze else "VACUUM")


class Recorder:
    """A connection that writes down what it is asked, and finds nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[object, ...]]] = []

    async def fetch(self, query: str, *args: object, **_options: object) -> list[object]:
        self.asked.append((query, args))
        return []

    async def fetchrow(self, query: str, *args: object) -> None:
        self.asked.append((query, args))

    fetchval = fetchrow


async def statement_of(call: Call) -> tuple[str, tuple[object, ...]]:
    """Give the one statement that a function of the store runs, with its arguments."""
    recorder = Recorder()
    await call(cast("Connection", recorder))
    [statement] = recorder.asked
    return statement


def literal(value: object) -> str:
    """Write an argument so that the database takes it for whatever type it wants."""
    return "NULL" if value is None else "'" + _text(value).replace("'", "''") + "'"


def _text(value: object) -> str:
    match value:
        case bytes():
            return "\\x" + value.hex()
        case timedelta():
            return f"{value // timedelta(microseconds=1)} microseconds"
        case datetime():
            return value.isoformat()
        case list():
            quoted = ("NULL" if item is None else msgspec.json.encode(_text(item)).decode() for item in value)
            return "{" + ",".join(quoted) + "}"
        case bool() | int() | float() | str() | UUID():
            return str(value)
        case _:
            raise TypeError(type(value))


class Plan:
    """What the database made of a statement, and how it went."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Give all nodes, each before what is under it."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes() if "Index Name" in node}

    @property
    def scanned_whole(self) -> set[str]:
        """Name the tables that are read from end to end."""
        return {node["Relation Name"] for node in self.nodes() if node["Node Type"] == "Seq Scan"}

    @property
    def buffers(self) -> int:
        """Count the pages that were looked at."""
        return sum(int(self.root.get(f"Shared {how} Blocks", 0)) for how in ("Hit", "Read"))


async def explain(connection: Connection, call: Call, *, is_generic: bool) -> Plan:
    """Run a statement and undo it; give its plan."""
    query, args = await statement_of(call)
    mode = "force_generic_plan" if is_generic else "force_custom_plan"
    execute = "EXECUTE explained" + (f" ({', '.join(map(literal, args))})" if args else "")
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        await connection.execute(f"PREPARE explained AS {query}")
        told = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {execute}")
        await connection.execute("DEALLOCATE explained")
    finally:
        await transaction.rollback()
    return Plan((msgspec.json.decode(told) if isinstance(told, str) else told)[0]["Plan"])
