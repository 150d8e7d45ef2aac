"""The use case of pulling tasks, and the strategies by which a database finds them."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias
from uuid import UUID

from corndog.domain.listing import Entry
from corndog.domain.task import Claim
from corndog.service.ids import NewId
from corndog.store import tasks as store
from corndog.store.engine import Connection, Database

Strategy: TypeAlias = Callable[[Connection, Claim, timedelta, UUID], Awaitable[list[Entry]]]
"""Finds and claims up to `count` tasks in claim order; it stamps each with the token."""

_ROUNDS = 10
"""How often a claim looks again when others took what it had seen."""


async def scan(connection: Connection, claim: Claim, default_timeout: timedelta, token: UUID) -> list[Entry]:
    """Claim by an ordered index scan that skips locked rows: one statement, on PostgreSQL."""
    taken: list[Entry] = []
    for _ in range(_ROUNDS):
        taken += await store.claim_scan(connection, claim, claim.count - len(taken), default_timeout, token)
        # One queue's scan misses nothing. Over several, all heads that it saw may have gone to others meanwhile.
        if len(claim.queues) == 1 or len(taken) == claim.count:
            break
        if not await store.claim_heads(connection, claim, 1):
            break
    return _in_order(taken)


async def by_heads(connection: Connection, claim: Claim, default_timeout: timedelta, token: UUID) -> list[Entry]:
    """Claim by reading the first ids without locks, then by key: on CockroachDB, where a scan locks too much."""
    taken: list[Entry] = []
    for _ in range(_ROUNDS):
        lack = claim.count - len(taken)
        heads = await store.claim_heads(connection, claim, lack + store.SPARE_HEADS)
        while heads and lack:
            ids, heads = heads[:lack], heads[lack:]
            taken += await store.claim_by_key(connection, claim, ids, default_timeout, token)
            lack = claim.count - len(taken)
        if not lack or not await store.claim_heads(connection, claim, 1):
            break
    return _in_order(taken)


def strategy(*, is_cockroach: bool) -> Strategy:
    """Choose how a database is claimed from."""
    return by_heads if is_cockroach else scan


class Claims:
    """Hands tasks out."""

    def __init__(self, database: Database, new_id: NewId, default_timeout: timedelta, strategy: Strategy) -> None:
        self._database = database
        self._new_id = new_id
        self._default_timeout = default_timeout
        self._strategy = strategy

    async def claim(self, claim: Claim) -> list[Entry]:
        """Claim up to `count` tasks: of all queues the best priority, then the oldest. Empty if nothing is ready."""
        token = self._new_id()
        is_rerun = False

        async def work(connection: Connection) -> list[Entry]:
            nonlocal is_rerun
            if is_rerun and (mine := await store.claimed_by(connection, claim.worker_id, token)):
                return mine
            is_rerun = True
            return await self._strategy(connection, claim, self._default_timeout, token)

        return await self._database.run(work)


def _in_order(taken: list[Entry]) -> list[Entry]:
    return sorted(taken, key=lambda entry: entry.task.order)
