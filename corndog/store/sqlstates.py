"""What the database's errors mean, in one place.

Three kinds matter: the transaction did not happen and may be rerun; nobody knows whether it happened, and it may be
rerun because every statement recognises its own effect; and the database can't take work now.
"""

from enum import Enum

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError


class Meaning(Enum):
    """What a failed statement tells about its transaction."""

    CONFLICT = "it did not happen: another transaction was in the way"
    LOST = "the connection is gone, and the commit may have happened or not"
    BUSY = "it did not happen: the database takes no work now"
    FAULT = "it did not happen: the statement is wrong, or the data is"


_BY_STATE = {
    "40001": Meaning.CONFLICT,  # serialization_failure
    "40P01": Meaning.CONFLICT,  # deadlock_detected
    "55P03": Meaning.CONFLICT,  # lock_not_available
    "40003": Meaning.LOST,  # statement_completion_unknown
    "25P03": Meaning.LOST,  # idle_in_transaction_session_timeout
    "57P01": Meaning.LOST,  # admin_shutdown
    "57P02": Meaning.LOST,  # crash_shutdown
    "57P03": Meaning.BUSY,  # cannot_connect_now
    "55000": Meaning.BUSY,  # object_not_in_prerequisite_state: the database accepts no connections
    "3D000": Meaning.BUSY,  # invalid_catalog_name: it does not exist, or not yet
    "28000": Meaning.BUSY,  # invalid_authorization_specification: its rules, or its password, have changed
    "28P01": Meaning.BUSY,  # invalid_password
    "57014": Meaning.BUSY,  # query_canceled, by statement_timeout
    "25006": Meaning.BUSY,  # read_only_sql_transaction: a standby that is not promoted yet
    "53100": Meaning.BUSY,  # disk_full
    "53200": Meaning.BUSY,  # out_of_memory
    "53300": Meaning.BUSY,  # too_many_connections
}


def meaning(error: BaseException) -> Meaning:
    """Classify an error of the driver, of the pool, or of the network under them."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        return meaning(error.orig.__cause__ or error.orig)
    if isinstance(error, PoolTimeoutError):
        return Meaning.BUSY
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return Meaning.CONFLICT  # a migration changed the table under a prepared statement
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return _BY_STATE.get(state, Meaning.LOST if state.startswith("08") else Meaning.FAULT)
    if isinstance(error, ValueError):
        return Meaning.FAULT  # the driver could not encode an argument
    if isinstance(error, (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, EOFError)):
        return Meaning.LOST
    return Meaning.FAULT
