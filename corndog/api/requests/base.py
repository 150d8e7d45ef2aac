"""What all bodies have in common."""

from datetime import timedelta
from math import isfinite
from typing import ClassVar

import msgspec

from corndog.api.combinations import Forbidden
from corndog.domain.errors import Invalid
from corndog.domain.limits import duration


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all bodies: unknown fields are refused."""

    FORBIDDEN: ClassVar[Forbidden] = ()


def given(seconds: float, field: str) -> timedelta:
    """Turn seconds that are there into a duration."""
    value = duration(seconds, field)
    assert value is not None
    return value


def finite(number: float, field: str) -> float:
    """Refuse what is no number, or none that ends."""
    if not isfinite(number):
        raise Invalid("a finite number is expected", field=field)
    return number


def at_most(number: int, limit: int, field: str) -> None:
    """Refuse more items than are allowed."""
    if number > limit:
        raise Invalid(f"{number} are too many: at most {limit} are allowed", field=field)
