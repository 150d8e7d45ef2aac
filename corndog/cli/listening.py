"""Addresses to listen on."""

import ipaddress
import socket
from dataclasses import dataclass

from corndog.cli.output import Failed


@dataclass(frozen=True)
class Address:
    """An IP address and a port."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Where a client on this machine finds it."""
        ip = ipaddress.ip_address(self.host)
        if ip.is_unspecified:
            ip = ipaddress.ip_address("127.0.0.1" if ip.version == 4 else "::1")  # noqa: PLR2004 - IP's versions
        return f"http://{ip if ip.version == 4 else f'[{ip}]'}:{self.port}"  # noqa: PLR2004


def free_address(host: str, port: int) -> Address:
    """Check that a server can listen there; port 0 chooses a free one.

    Raises:
        Failed: the port is in use, or this machine has no such address.

    """
    try:
        # Of a name's addresses the IPv4 one, as clients' default is.
        family, kind, protocol, _, target = min(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        with socket.socket(family, kind, protocol) as probe:
            # A listener is in the way; what remains of closed connections is not.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
            free_host, free_port = probe.getsockname()[:2]
    except OSError as error:
        raise Failed(f"can't listen on {host} port {port}: {error.strerror}; choose another --host or --port") from None
    return Address(free_host, free_port)
