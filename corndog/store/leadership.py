"""A lease by which one process at a time does what time demands."""

from datetime import timedelta

from corndog.store.engine import Connection
from corndog.store.statements import load


async def lead(connection: Connection, name: str, holder: str, term: timedelta) -> bool:
    """Take the lease or keep it for another term; False while another holder has it."""
    return await connection.fetchval(load("lead"), name, holder, term) is not None


async def resign(connection: Connection, name: str, holder: str) -> None:
    """Give the lease up."""
    await connection.execute(load("resign"), name, holder)
