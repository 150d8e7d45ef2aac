"""What is remembered: the database, its tables, and one function for each statement.

Hot statements are the files `sql/*.sql`, run on the pool's own asyncpg connection; SQLAlchemy owns the pool and the
tables. Every UPDATE and DELETE repeats its whole rule in its own WHERE, so that a statement can be rerun and can
race any other: ids selected before are candidates, no more. Where rows are named by id, that rule stands inside a CASE:
otherwise the planner may take it for a way to find them, and read the index of the ready tasks instead of the key.
"""
