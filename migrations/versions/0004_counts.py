"""How many live tasks there are of each queue and state: totals, and the differences not yet added to them.

Each step is idempotent: CockroachDB commits schema changes one by one, so a migration that was cut off is rerun.

CockroachDB: differences come in order of time, so their key begins with a shard, or all would hit one range.

PostgreSQL: differences live for seconds, so they are vacuumed after a fixed number of dead rows.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_COCKROACH = (
    "ALTER TABLE count_deltas CONFIGURE ZONE USING gc.ttlseconds = 600",
    "ALTER TABLE queue_state_counts CONFIGURE ZONE USING gc.ttlseconds = 600",
)
_POSTGRESQL = (
    "ALTER TABLE count_deltas SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,"
    " autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0,"
    " autovacuum_analyze_threshold = 50000)",
)
_COUNT = """
    INSERT INTO count_deltas (queue, current_state, tasks)
    SELECT part.queue, part.current_state, sum(part.tasks)::int8
    FROM (
        SELECT queue, current_state, count(*) AS tasks FROM tasks GROUP BY queue, current_state
        UNION ALL
        SELECT queue, current_state, -tasks FROM queue_state_counts
        UNION ALL
        SELECT queue, current_state, -tasks FROM count_deltas
    ) AS part
    GROUP BY part.queue, part.current_state
    HAVING sum(part.tasks) <> 0
"""


def upgrade() -> None:
    is_cockroach = op.get_context().dialect.name == "cockroachdb"
    op.create_table(
        "queue_state_counts",
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("current_state", sa.Text, nullable=False),
        sa.Column("tasks", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("queue", "current_state", name="queue_state_counts_pkey"),
        if_not_exists=True,
    )
    op.create_table(
        "count_deltas",
        sa.Column(
            "shard",
            sa.Integer,
            server_default=sa.text("floor(random() * 8)::INT8" if is_cockroach else "0"),
            nullable=False,
        ),
        sa.Column(
            "write_time",
            sa.TIMESTAMP(timezone=True),
            server_default=sa.text("statement_timestamp()"),
            nullable=False,
        ),
        sa.Column("id", sa.Uuid, server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("current_state", sa.Text, nullable=False),
        sa.Column("tasks", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("shard", "write_time", "id", name="count_deltas_pkey"),
        if_not_exists=True,
    )
    op.create_table(
        "count_floor",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("write_time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="count_floor_pkey"),
        if_not_exists=True,
    )
    for statement in _COCKROACH if is_cockroach else _POSTGRESQL:
        op.execute(statement)
    # What older servers write from here on is not counted: `corndog recount`, when the last of them is gone.
    op.execute(_COUNT)
