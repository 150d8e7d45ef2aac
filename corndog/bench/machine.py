"""The machine on which is measured: no figure means anything without it."""

import os
import platform
from datetime import UTC, datetime

from corndog import __version__


def about() -> str:
    """Say in a line what this machine is, and what day."""
    return ", ".join(
        (
            f"corndog {__version__}",
            f"{datetime.now(UTC):%Y-%m-%d}",
            f"{_cores()} cores ({platform.system()} {platform.machine()})",
            f"Python {platform.python_version()}",
        )
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
