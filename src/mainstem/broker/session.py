"""What is known of a connection beside its requests: who is at its other end, and the address that it came to.

One for each connection, owned by it; requests carry it. Concurrency: the event loop only.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.principal import ANONYMOUS, Principal


class Session:
    """A connection's state. ``advertised`` is the address that this client is told of the node."""

    __slots__ = ("advertised", "principal")

    def __init__(self, advertised: tuple[str, int], principal: Principal = ANONYMOUS) -> None:
        self.advertised = advertised
        self.principal = principal


NO_SESSION: Final = Session(("", 0))
"""For requests that come over no connection."""
