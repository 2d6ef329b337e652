"""Where brokers are: ``host:port``, and lists of them as ``bootstrap.servers`` has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from mainstem.errors import ConfigError

DEFAULT_PORT = 9092
_ADDRESS = re.compile(r"(?:[A-Za-z_0-9]+://)?(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:\[\]/,]+))(?::(\d{1,5}))?")


class Address(NamedTuple):
    """A broker's host and port; ``str`` gives ``host:port``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(bootstrap: str | Iterable[str]) -> tuple[Address, ...]:
    """The addresses of a comma-separated list, or of several; the port is 9092 where none is given.

    Raises ConfigError, which says what part is wrong.
    """
    text = bootstrap if isinstance(bootstrap, str) else ",".join(bootstrap)
    addresses = tuple(_parse(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise ConfigError("the log's address is empty; give it as HOST:PORT, e.g. localhost:9092")
    return addresses


def _parse(part: str) -> Address:
    match = _ADDRESS.fullmatch(part)
    port = DEFAULT_PORT if match is None or match[3] is None else int(match[3])
    if match is None or not 0 < port < 65536:
        raise ConfigError(f"{part!r} is not an address; give it as HOST:PORT, e.g. localhost:9092")
    return Address(match[1] or match[2], port)
