"""The tables, as Alembic compares them with the migrations.

Live tasks are few and hot, archived ones many and cold, so they have tables of their own; a payload or result never
moves with a transition. There are no foreign keys: their checks take locks that hot tables can't afford.
"""

from typing import Any

from sqlalchemy import (
    ARRAY,
    TIMESTAMP,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)

metadata = MetaData()

HELD = "phase = 'held'"
READY = "phase = 'ready'"
PARKED = "phase = 'parked' AND due_time IS NOT NULL"
OF_A_JOB = "job_id IS NOT NULL"
OF_NO_JOB = "job_id IS NULL"
ENDED = "end_time IS NOT NULL"
CLOCK_RUNS = "phase <> 'parked' AND due_time IS NOT NULL"


def _time(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, TIMESTAMP(timezone=True), nullable=nullable)


def _record() -> list[Column[Any]]:
    """List the columns that a task has, live and archived alike."""
    return [
        Column("id", Uuid, nullable=False),
        Column("queue", Text, nullable=False),
        Column("kind", Text),
        Column("current_state", Text, nullable=False),
        Column("auto_target_state", Text, nullable=False),
        Column("phase", Text, nullable=False),
        Column("home_state", Text, nullable=False),
        Column("home_target", Text, nullable=False),
        Column("rank", BigInteger, nullable=False),
        _time("submit_time"),
        _time("update_time"),
        Column("timeout", Interval),
        Column("work_timeout", Interval),
        _time("due_time", nullable=True),
        Column("delivery", BigInteger, nullable=False),
        Column("held_by", Text),
        _time("claim_time", nullable=True),
        Column("attempt", Integer, nullable=False),
        Column("max_attempts", Integer),
        Column("backoff", Interval, nullable=False),
        Column("backoff_max", Interval, nullable=False),
        Column("backoff_multiplier", Double, nullable=False),
        Column("jitter", Text, nullable=False),
        Column("lost", Integer, nullable=False),
        Column("max_lost", Integer),
        Column("job_id", Uuid),
        Column("name", Text),
        Column("waiting_on", Integer, nullable=False),
        Column("last_error", Text),
        Column("metadata", Text),
    ]


def _added() -> list[Column[Any]]:
    """List those that later migrations have added to both tables."""
    return [
        # What a task that waits for others waits for besides, from the moment that the last of them is done.
        Column("start_delay", Interval),
        _time("start_at", nullable=True),
        Column("canceled_by", Text),
    ]


tasks = Table(
    "tasks",
    metadata,
    *_record(),
    # The request that last wrote the row: its rerun, after a lost connection, knows its own effect by it.
    Column("write_token", Uuid),
    *_added(),
    PrimaryKeyConstraint("id", name="tasks_pkey"),
    Index(
        "tasks_ready", "queue", "current_state", "rank", "submit_time", "id",
        postgresql_where=text(READY),
    ),
    Index("tasks_listed", "queue", "current_state", "submit_time", "id"),
    Index(
        "tasks_timed", "due_time", "id",
        postgresql_where=text(CLOCK_RUNS),
    ),
    Index(
        "tasks_parked", "due_time", "id",
        postgresql_where=text(PARKED),
    ),
    Index(
        "tasks_held", "held_by", "write_token",
        postgresql_where=text(HELD),
    ),
    Index(
        "tasks_of_jobs", "job_id", "delivery",
        postgresql_where=text(OF_A_JOB),
    ),
)  # fmt: skip

archived_tasks = Table(
    "archived_tasks",
    metadata,
    *_record(),
    Column("outcome", Text, nullable=False),
    # The hash of the request that ended the task, and what that request submitted: a repeat is answered from these.
    Column("request", LargeBinary),
    Column("next_task_ids", ARRAY(Uuid), nullable=False),
    *_added(),
    PrimaryKeyConstraint("id", name="archived_tasks_pkey"),
    Index("archived_tasks_listed", "queue", "current_state", "submit_time", "id"),
    Index(
        "archived_tasks_of_jobs", "job_id", "phase",
        postgresql_where=text(OF_A_JOB),
    ),
    Index(
        "archived_tasks_ended", "phase", "update_time", "id",
        postgresql_where=text(OF_NO_JOB),
    ),
)  # fmt: skip


def _content(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("id", Uuid, nullable=False),
        Column("bytes", LargeBinary, nullable=False),
        Column("content_type", Text, nullable=False),
        Column("is_json", Boolean, nullable=False),
        PrimaryKeyConstraint("id", name=f"{name}_pkey"),
    )


payloads = _content("payloads")
results = _content("results")

task_runs = Table(
    "task_runs",
    metadata,
    Column("task_id", Uuid, nullable=False),
    Column("delivery", BigInteger, nullable=False),
    Column("worker_id", Text, nullable=False),
    _time("claim_time"),
    _time("end_time"),
    Column("outcome", Text, nullable=False),
    Column("request", LargeBinary),
    Column("error", Text),
    PrimaryKeyConstraint("task_id", "delivery", name="task_runs_pkey"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Uuid, nullable=False),
    Column("name", Text),
    # For listings: it follows what the job's tasks say.
    Column("status", Text, nullable=False),
    _time("submit_time"),
    _time("update_time"),
    _time("end_time", nullable=True),
    Column("task_count", Integer, nullable=False),
    Column("metadata", Text),
    PrimaryKeyConstraint("id", name="jobs_pkey"),
    Index("jobs_by_status", "status", "submit_time", "id"),
    Index(
        "jobs_ended", "status", "end_time", "id",
        postgresql_where=text(ENDED),
    ),
)  # fmt: skip

task_dependencies = Table(
    "task_dependencies",
    metadata,
    Column("child_id", Uuid, nullable=False),
    Column("parent_id", Uuid, nullable=False),
    Column("done", Boolean, nullable=False),
    # Whether the child runs, too, if this parent ends as failed or canceled.
    Column("run_on_failure", Boolean, nullable=False),
    PrimaryKeyConstraint("child_id", "parent_id", name="task_dependencies_pkey"),
    Index("task_dependencies_of_parents", "parent_id", "child_id"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", Text, nullable=False),
    Column("request", LargeBinary, nullable=False),
    # What the request has made: a job or tasks; and how it was answered besides.
    Column("job_id", Uuid),
    Column("task_ids", ARRAY(Uuid), nullable=False),
    Column("answer", LargeBinary),
    # When the key may be dropped at the earliest; and whether it was found then that its tasks are purged already.
    _time("check_time"),
    Column("is_gone", Boolean, nullable=False),
    PrimaryKeyConstraint("key", name="idempotency_keys_pkey"),
    Index("idempotency_keys_checked", "check_time", "key"),
)

workers = Table(
    "workers",
    metadata,
    Column("id", Text, nullable=False),
    _time("first_seen"),
    _time("last_seen"),
    Column("drains", Boolean, nullable=False),
    Column("metadata", Text),
    PrimaryKeyConstraint("id", name="workers_pkey"),
    Index("workers_seen", "last_seen", "id"),
)

leader_leases = Table(
    "leader_leases",
    metadata,
    Column("name", Text, nullable=False),
    Column("holder", Text, nullable=False),
    _time("expires"),
    PrimaryKeyConstraint("name", name="leader_leases_pkey"),
)

queue_state_counts = Table(
    "queue_state_counts",
    metadata,
    Column("queue", Text, nullable=False),
    Column("current_state", Text, nullable=False),
    Column("tasks", BigInteger, nullable=False),
    PrimaryKeyConstraint("queue", "current_state", name="queue_state_counts_pkey"),
)

count_deltas = Table(
    "count_deltas",
    metadata,
    # CockroachDB spreads them over some shards; each has its rows in order of time.
    Column("shard", Integer, server_default=text("0"), nullable=False),
    Column("write_time", TIMESTAMP(timezone=True), server_default=text("statement_timestamp()"), nullable=False),
    Column("id", Uuid, server_default=text("gen_random_uuid()"), nullable=False),
    Column("queue", Text, nullable=False),
    Column("current_state", Text, nullable=False),
    # How many tasks more, or fewer, a statement has left there.
    Column("tasks", BigInteger, nullable=False),
    PrimaryKeyConstraint("shard", "write_time", "id", name="count_deltas_pkey"),
)

count_floor = Table(
    "count_floor",
    metadata,
    Column("id", Integer, autoincrement=False, nullable=False),
    # No delta is left that was written earlier: what a read passes by.
    _time("write_time"),
    PrimaryKeyConstraint("id", name="count_floor_pkey"),
)
