"""Tasks, their archive, contents and runs, and the leaders' leases; the same on every engine.

Each step is idempotent: CockroachDB commits schema changes one by one, so a migration that was cut off is rerun.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _record() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("kind", sa.Text),
        sa.Column("current_state", sa.Text, nullable=False),
        sa.Column("auto_target_state", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("home_state", sa.Text, nullable=False),
        sa.Column("home_target", sa.Text, nullable=False),
        sa.Column("rank", sa.BigInteger, nullable=False),
        sa.Column("submit_time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("update_time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("timeout", sa.Interval),
        sa.Column("work_timeout", sa.Interval),
        sa.Column("due_time", sa.TIMESTAMP(timezone=True)),
        sa.Column("delivery", sa.BigInteger, nullable=False),
        sa.Column("held_by", sa.Text),
        sa.Column("claim_time", sa.TIMESTAMP(timezone=True)),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("max_attempts", sa.Integer),
        sa.Column("backoff", sa.Interval, nullable=False),
        sa.Column("backoff_max", sa.Interval, nullable=False),
        sa.Column("backoff_multiplier", sa.Double, nullable=False),
        sa.Column("jitter", sa.Text, nullable=False),
        sa.Column("lost", sa.Integer, nullable=False),
        sa.Column("max_lost", sa.Integer),
        sa.Column("job_id", sa.Uuid),
        sa.Column("name", sa.Text),
        sa.Column("waiting_on", sa.Integer, nullable=False),
        sa.Column("last_error", sa.Text),
        sa.Column("metadata", sa.Text),
    ]


def _content(name: str) -> None:
    op.create_table(
        name,
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("bytes", sa.LargeBinary, nullable=False),
        sa.Column("content_type", sa.Text, nullable=False),
        sa.Column("is_json", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"{name}_pkey"),
        if_not_exists=True,
    )


def _index(name: str, table: str, columns: list[str], where: str | None = None) -> None:
    op.create_index(
        name, table, columns, if_not_exists=True, postgresql_where=None if where is None else sa.text(where)
    )


def upgrade() -> None:
    op.create_table(
        "tasks",
        *_record(),
        sa.Column("write_token", sa.Uuid),
        sa.PrimaryKeyConstraint("id", name="tasks_pkey"),
        if_not_exists=True,
    )
    _index("tasks_ready", "tasks", ["queue", "current_state", "rank", "submit_time", "id"], "phase = 'ready'")
    _index("tasks_listed", "tasks", ["queue", "current_state", "submit_time", "id"])
    _index("tasks_timed", "tasks", ["due_time", "id"], "phase <> 'parked' AND due_time IS NOT NULL")
    _index("tasks_parked", "tasks", ["due_time", "id"], "phase = 'parked' AND due_time IS NOT NULL")
    _index("tasks_held", "tasks", ["held_by", "write_token"], "phase = 'held'")

    op.create_table(
        "archived_tasks",
        *_record(),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("request", sa.LargeBinary),
        sa.Column("next_task_ids", sa.ARRAY(sa.Uuid), nullable=False),
        sa.PrimaryKeyConstraint("id", name="archived_tasks_pkey"),
        if_not_exists=True,
    )
    _index("archived_tasks_listed", "archived_tasks", ["queue", "current_state", "submit_time", "id"])

    _content("payloads")
    _content("results")

    op.create_table(
        "task_runs",
        sa.Column("task_id", sa.Uuid, nullable=False),
        sa.Column("delivery", sa.BigInteger, nullable=False),
        sa.Column("worker_id", sa.Text, nullable=False),
        sa.Column("claim_time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("end_time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("request", sa.LargeBinary),
        sa.PrimaryKeyConstraint("task_id", "delivery", name="task_runs_pkey"),
        if_not_exists=True,
    )
    op.create_table(
        "leader_leases",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("expires", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="leader_leases_pkey"),
        if_not_exists=True,
    )
