"""Tasks that are only made up: places in claim order, each in a window."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from corndog.domain.task import Candidate, Order, Window
from corndog.hints.link import Link

START = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
TIMEOUT = 10.0
"""Seconds that Redis is waited for where it is there: a busy machine must not look like a lost Redis."""


def order(number: int, rank: int = 0) -> Order:
    """Give the place of the task of this number: within a rank they come in the order of their numbers."""
    return rank, START + timedelta(microseconds=number), UUID(int=number)


def place(window: Window, number: int, rank: int = 0) -> Candidate:
    return Candidate(window, order(number, rank))


def places(window: Window, *numbers: int) -> list[Candidate]:
    return [place(window, number) for number in numbers]


def new_prefix() -> str:
    return f"test-{uuid4().hex}"


@asynccontextmanager
async def linked(url: str, prefix: str, seconds: float = TIMEOUT) -> AsyncIterator[Link]:
    link = Link(url, prefix=prefix, timeout=seconds)
    try:
        yield link
    finally:
        await link.close()
