"""Ports for processes that a test starts, kills and starts again at the same address.

Between the call and the moment when the server listens, nobody else may get the same port. So each of pytest's workers
draws from one of eight parts of the range, and none of its newest thousand again.
"""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from pathlib import Path

_FIRST = 10_000
_PARTS = 8
_WORKER = "PYTEST_XDIST_WORKER"
_drawn: deque[int] = deque(maxlen=1_000)
"""The newest that this process has drawn."""
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_RANDOM = random.SystemRandom()  # Hypothesis seeds the shared generator: two processes would draw the same ports


def free_port() -> int:
    """A TCP port on loopback that no socket holds and that the kernel gives to no connection.

    A port of the ephemeral range may become the near end of any connection before its server listens, or while that
    server is away. A client that tries the port again and again may even be given it and be connected to itself.
    """
    own = _own_range()
    while True:
        port = _RANDOM.choice(own)
        if port in _drawn:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _drawn.append(port)
        return port


def _own_range() -> range:
    """The part of the ports below the ephemeral range that belongs to this worker; without workers the first one."""
    first_ephemeral = int(_EPHEMERAL.read_text().split()[0])
    size = (first_ephemeral - _FIRST) // _PARTS
    begin = _FIRST + int(os.environ.get(_WORKER, "gw0").removeprefix("gw")) % _PARTS * size
    return range(begin, begin + size)


def accepts(port: int) -> bool:
    """Whether a server listens at the port on loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
