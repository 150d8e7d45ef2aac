"""What an adapter gets from the driver, and how it reports back: one JSON object a line."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from time import perf_counter

VARIANT = os.environ.get("BENCH_VARIANT", "")
TASKS = int(os.environ.get("BENCH_TASKS", "0"))
BATCH = 100
PAYLOADS = [{"n": n} for n in range(TASKS)]
VALKEY_SOCKET = os.environ.get("VALKEY_SOCKET", "")


def say(**fields: object) -> None:
    """Tell the driver something."""
    print(json.dumps(fields), flush=True)


@contextmanager
def timed(part: str) -> Iterator[None]:
    """Measure a part of the run, `produce` or `drain`."""
    began = perf_counter()
    yield
    say(part=part, seconds=perf_counter() - began)


def proved(package: str, *, ran: int, stored: int) -> None:
    """Report how many tasks have run, and how many are done by the peer's own account."""
    say(ran=ran, stored=stored, version=version(package))


def batches() -> Iterator[list[dict[str, int]]]:
    """Cut the payloads into batches."""
    for start in range(0, TASKS, BATCH):
        yield PAYLOADS[start : start + BATCH]
