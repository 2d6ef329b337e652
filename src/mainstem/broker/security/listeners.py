"""The addresses on which the node listens, each with one of Kafka's security protocols.

    127.0.0.1:9092                                             plaintext, as by default
    127.0.0.1:9092,SASL_SSL://0.0.0.0:9093                     plaintext for this machine, users and TLS for the others

``PLAINTEXT`` neither encrypts nor authenticates. ``SSL`` is TLS; the node may ask for a client certificate.
``SASL_PLAINTEXT`` and ``SASL_SSL`` require a login. The node's own processes use the first listener.
Pure functions over values.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from mainstem.addresses import Address, parse_address
from mainstem.errors import ConfigError


class Protocol(enum.Enum):
    """Kafka's security protocols."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether the protocol encrypts."""
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether the protocol requires a login."""
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Listener:
    """One address. ``advertised`` is the address that clients get; by default the address they connected to."""

    protocol: Protocol
    host: str
    port: int
    advertised: tuple[str, int] | None = None

    def __str__(self) -> str:
        prefix = "" if self.protocol is Protocol.PLAINTEXT else f"{self.protocol.value}://"
        return prefix + str(Address(self.host, self.port))


ADVERTISED: Final = "advertised.listeners"
"""Kafka's setting for the addresses that clients get."""
_PROTOCOLS: Final = ", ".join(protocol.value for protocol in Protocol)


def parse_listeners(listen: str, advertise: str = "") -> tuple[Listener, ...]:
    """Parse a comma-separated list of listeners, each ``HOST:PORT`` or ``PROTOCOL://HOST:PORT``.

    ``advertise`` has the same form: for each protocol, the address that clients get. Raises ConfigError.
    """
    listeners = [Listener(*_parse(part)) for part in listen.split(",") if part.strip()]
    if not listeners:
        raise ConfigError(f"{listen!r} is not HOST:PORT with a port up to 65535, e.g. 127.0.0.1:9092")
    advertised: dict[Protocol, tuple[str, int]] = {}
    for part in advertise.split(","):
        if part.strip():
            protocol, host, port = _parse(part, listeners[0].protocol)
            advertised[protocol] = host, port
    for protocol in advertised:
        if all(listener.protocol is not protocol for listener in listeners):
            raise ConfigError(f"advertised.listeners names {protocol.value}, but nothing listens in that protocol")
    return tuple(Listener(each.protocol, each.host, each.port, advertised.get(each.protocol)) for each in listeners)


def _parse(text: str, default: Protocol = Protocol.PLAINTEXT) -> tuple[Protocol, str, int]:
    name, separator, address = text.strip().rpartition("://")
    if not separator:
        return default, *parse_address(address)
    try:
        return Protocol(name.upper()), *parse_address(address)
    except ValueError:
        raise ConfigError(f"unknown security protocol {name!r}: use one of {_PROTOCOLS}") from None
