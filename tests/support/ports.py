"""Ports for processes that a test starts, kills and starts again at the same address."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_FIRST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_RANDOM = random.SystemRandom()  # Hypothesis seeds the shared generator: two processes would draw the same ports


def free_port() -> int:
    """A TCP port on loopback that no socket holds and that the kernel gives to no connection.

    A port of the ephemeral range may become the near end of any connection before its server listens, or while that
    server is away. A client that tries the port again and again may even be given it and be connected to itself.
    """
    first_ephemeral = int(_EPHEMERAL.read_text().split()[0])
    while True:
        port = _RANDOM.randrange(_FIRST, first_ephemeral)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def accepts(port: int) -> bool:
    """Whether a server listens at the port on loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
