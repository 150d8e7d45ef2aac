"""What differs between the engines, and nothing else.

CockroachDB: rows deleted from a hot table stay in the way of scans until garbage collection, so it comes soon; and
submit times grow, so the claim index is spread over buckets, or all submits would hit one range.

PostgreSQL: the hot tables turn over completely many times a day, so they are vacuumed after a fixed number of dead
rows rather than after a share of the table.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COCKROACH = (
    "ALTER TABLE tasks CONFIGURE ZONE USING gc.ttlseconds = 600",
    "ALTER TABLE payloads CONFIGURE ZONE USING gc.ttlseconds = 600",
    "CREATE INDEX IF NOT EXISTS tasks_ready_sharded ON tasks (queue, current_state, rank, submit_time, id)"
    " USING HASH WHERE phase = 'ready'",
    "DROP INDEX IF EXISTS tasks@tasks_ready",
)
_POSTGRESQL = (
    "ALTER TABLE tasks SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,"
    " autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0,"
    " autovacuum_analyze_threshold = 5000)",
)


def upgrade() -> None:
    is_cockroach = op.get_context().dialect.name == "cockroachdb"
    for statement in _COCKROACH if is_cockroach else _POSTGRESQL:
        op.execute(statement)
