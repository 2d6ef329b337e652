"""A request as handlers get it, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from mainstem.broker.security.principal import Principal
from mainstem.broker.security.session import NO_SESSION, Session
from mainstem.protocol.schema import Message


def _hold_nothing() -> Callable[[], None]:
    return lambda: None


class Call(NamedTuple):
    """A request with the session of its sender. ``body`` is the API's request class.

    ``client_host`` is the sender's address after a ``/``, as Kafka shows it. ``hold`` delays later requests on the
    same connection until the function that it returns is called.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    body: Any
    session: Session = NO_SESSION
    hold: Callable[[], Callable[[], None]] = _hold_nothing

    @property
    def principal(self) -> Principal:
        """The sender's principal."""
        return self.session.principal

    @property
    def client_attributes(self) -> dict[str, str]:
        """The sender's attributes, by the names that subscriptions to client metrics match."""
        name, version = self.session.client_software
        return {
            "client_id": self.client_id or "",
            "client_software_name": name,
            "client_software_version": version,
            "client_source_address": self.client_host[1:],
            "client_source_port": str(self.session.client_port),
        }

    @property
    def advertised(self) -> tuple[str, int]:
        """The address of this node that the sender gets: that of the listener by which it came."""
        return self.session.advertised


Answer: TypeAlias = Message | None
"""A response; None when the protocol sends none (Produce with acks=0)."""
