"""What is remembered: the database, its tables, and one function for each statement.

Hot statements are the files `sql/*.sql`, run on the pool's own asyncpg connection; SQLAlchemy owns the pool and the
tables. Every UPDATE and DELETE repeats its whole rule in its own WHERE, so that a statement can be rerun and can
race any other: ids selected before are candidates, no more.
"""
