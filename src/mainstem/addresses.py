"""Network addresses: ``HOST:PORT``, lists of them, and which hosts only this machine reaches. Pure functions."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

from mainstem.errors import ConfigError

DEFAULT_PORT = 9092
_ADDRESS = re.compile(r"(?:\[([\w:.%-]+)\]|([^\s:\[\]/,]+))(?::([0-9]{1,5}))?")


class Address(NamedTuple):
    """A host, without brackets, and a port; ``str`` gives ``HOST:PORT``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, default_port: int | None = None) -> Address:
    """Parse ``HOST:PORT``; ``[::1]:9092`` for IPv6. The port is optional if there is a default. Raises ConfigError."""
    match = _ADDRESS.fullmatch(text)
    port = match and (default_port if match[3] is None else int(match[3]))
    if match is None or port is None or port > 65_535:
        raise ConfigError(f"{text!r} is not HOST:PORT with a port up to 65535, e.g. 127.0.0.1:9092")
    return Address(match[1] or match[2], port)


def parse_bootstrap(bootstrap: str | Iterable[str]) -> tuple[Address, ...]:
    """Parse Kafka's ``bootstrap.servers``: one or several comma-separated lists, by default with port 9092.

    An address may begin with ``PROTOCOL://``. Raises ConfigError, which names the invalid part.
    """
    text = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
    parts = [part.strip().rpartition("://")[2] for part in text.split(",") if part.strip()]
    addresses = tuple(parse_address(part, DEFAULT_PORT) for part in parts)
    if not addresses:
        raise ConfigError("the log's address is empty; give it as HOST:PORT, e.g. localhost:9092")
    if not all(address.port for address in addresses):
        raise ConfigError(f"{text!r} is not HOST:PORT with a port from 1 to 65535, e.g. localhost:9092")
    return addresses


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Whether ``host`` means all addresses of a machine; clients cannot connect to such an address."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
