"""Logs: one line each, to standard error, with the time in UTC."""

import logging
import time

FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"


def configure(level: str) -> None:
    """Write log lines from this level on."""
    formatter = logging.Formatter(FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # It tells of every run of every loop, five times a second, and warns of each that finds the last one under way.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    # A loop logs its own failures. What is cancelled at the end before it has begun is none.
    logging.getLogger("apscheduler.executors").setLevel(logging.CRITICAL)
