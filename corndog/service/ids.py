"""Ids are made here, before anything is written, so that a statement can be rerun without doubling a task."""

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID, uuid4

from uuid_utils.compat import uuid7

NewId: TypeAlias = Callable[[], UUID]


def id_maker(*, is_cockroach: bool) -> NewId:
    """Choose the kind of id: ordered by time, except where ordered keys would all hit one range of a cluster."""
    return uuid4 if is_cockroach else uuid7
