"""A link and windows of a test's own, on the Valkey that all share."""

from collections.abc import AsyncIterator

import pytest

from corndog.hints.link import Link
from corndog.hints.windows import Windows
from tests.hints.places import linked, new_prefix


@pytest.fixture
async def link(accelerator_url: str) -> AsyncIterator[Link]:
    async with linked(accelerator_url, new_prefix()) as link:
        yield link


@pytest.fixture
def windows(link: Link) -> Windows:
    """Give windows of three tasks at most."""
    return Windows(link, 3)
