"""Everything that one Redis does for a process."""

from corndog.hints.leases import Leases
from corndog.hints.link import Link
from corndog.hints.wakeups import WakeUps
from corndog.hints.windows import Windows


class Hints:
    """The windows, wake-ups and leases in one Redis, over one link."""

    def __init__(self, url: str, *, prefix: str, timeout: float, window_size: int) -> None:
        self.link = Link(url, prefix=prefix, timeout=timeout)
        self.windows = Windows(self.link, window_size)
        self.wakeups = WakeUps(self.link)
        self.leases = Leases(self.link)
