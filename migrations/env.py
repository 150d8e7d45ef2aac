"""Runs the migrations on the connection that `corndog.store.migrate` hands over."""

from alembic import context
from sqlalchemy import text

from corndog.store.schema import metadata

connection = context.config.attributes["connection"]
if connection.dialect.name == "cockroachdb":
    # It takes schema changes one by one, not in a transaction; a migration that was cut off is run again.
    connection = connection.execution_options(isolation_level="AUTOCOMMIT")

# A migration that can't get its lock at once must not queue up in front of the workers' statements.
connection.execute(text("SET lock_timeout = '5s'"))
connection.commit()

context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
