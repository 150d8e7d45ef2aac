"""Jobs and their dependencies, idempotency keys, the registry of workers, and what failures leave behind.

Each step is idempotent: CockroachDB commits schema changes one by one, so a migration that was cut off is rerun.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_OF_A_JOB = "job_id IS NOT NULL"
_OF_NO_JOB = "job_id IS NULL"


def _index(name: str, table: str, columns: list[str], where: str | None = None) -> None:
    op.create_index(
        name, table, columns, if_not_exists=True, postgresql_where=None if where is None else sa.text(where)
    )


def upgrade() -> None:
    for table in ("tasks", "archived_tasks"):
        op.add_column(table, sa.Column("start_delay", sa.Interval), if_not_exists=True)
        op.add_column(table, sa.Column("start_at", sa.TIMESTAMP(timezone=True)), if_not_exists=True)
        op.add_column(table, sa.Column("canceled_by", sa.Text), if_not_exists=True)
    op.add_column("task_runs", sa.Column("error", sa.Text), if_not_exists=True)
    _index("tasks_of_jobs", "tasks", ["job_id", "delivery"], _OF_A_JOB)
    _index("archived_tasks_of_jobs", "archived_tasks", ["job_id", "phase"], _OF_A_JOB)
    _index("archived_tasks_ended", "archived_tasks", ["phase", "update_time", "id"], _OF_NO_JOB)

    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("submit_time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("update_time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("end_time", sa.TIMESTAMP(timezone=True)),
        sa.Column("task_count", sa.Integer, nullable=False),
        sa.Column("metadata", sa.Text),
        sa.PrimaryKeyConstraint("id", name="jobs_pkey"),
        if_not_exists=True,
    )
    _index("jobs_by_status", "jobs", ["status", "submit_time", "id"])
    _index("jobs_ended", "jobs", ["status", "end_time", "id"], "end_time IS NOT NULL")

    op.create_table(
        "task_dependencies",
        sa.Column("child_id", sa.Uuid, nullable=False),
        sa.Column("parent_id", sa.Uuid, nullable=False),
        sa.Column("done", sa.Boolean, nullable=False),
        sa.Column("run_on_failure", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("child_id", "parent_id", name="task_dependencies_pkey"),
        if_not_exists=True,
    )
    _index("task_dependencies_of_parents", "task_dependencies", ["parent_id", "child_id"])

    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("job_id", sa.Uuid),
        sa.Column("task_ids", sa.ARRAY(sa.Uuid), nullable=False),
        sa.Column("answer", sa.LargeBinary),
        sa.Column("check_time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("is_gone", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("key", name="idempotency_keys_pkey"),
        if_not_exists=True,
    )
    _index("idempotency_keys_checked", "idempotency_keys", ["check_time", "key"])

    op.create_table(
        "workers",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("first_seen", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("last_seen", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("drains", sa.Boolean, nullable=False),
        sa.Column("metadata", sa.Text),
        sa.PrimaryKeyConstraint("id", name="workers_pkey"),
        if_not_exists=True,
    )
    _index("workers_seen", "workers", ["last_seen", "id"])
