"""Addresses of HTTP: ``HOST:PORT``, and the names that stand for this machine alone. Pure functions."""

from __future__ import annotations

import socket

from mainstem.errors import ConfigError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, the host of IPv6 in brackets. Raises ConfigError."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"{address!r} is not HOST:PORT with a port up to 65535, e.g. 127.0.0.1:8080")
    return host, int(port)


def bound_address(listening: socket.socket) -> str:
    """``HOST:PORT`` that a socket is bound to."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
