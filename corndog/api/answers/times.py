"""How durations and times are written."""

from datetime import datetime, timedelta


def seconds(duration: timedelta | None) -> float | None:
    """Write a duration in seconds; None is none."""
    return None if duration is None else duration.total_seconds()


def text(time: datetime) -> str:
    """Write a time of the database, which is in UTC. MessagePack has a type for times; requests take text in both."""
    return time.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
