"""What is known of a connection beside its requests: who is at its other end, and the address that it came to.

One for each connection, owned by it; requests carry it. Concurrency: the event loop only.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.principal import ANONYMOUS, Principal
from mainstem.broker.sasl import Authentication


class Session:
    """A connection's state. ``advertised`` is the address that this client is told of the node.

    ``authentication`` is there on listeners that ask for a user.
    """

    __slots__ = ("_principal", "advertised", "authentication")

    def __init__(
        self,
        advertised: tuple[str, int],
        principal: Principal = ANONYMOUS,
        authentication: Authentication | None = None,
    ) -> None:
        self.advertised = advertised
        self.authentication = authentication
        self._principal = principal

    @property
    def principal(self) -> Principal:
        """Who is at the other end, as far as it is proven."""
        return self._principal if self.authentication is None else self.authentication.principal


NO_SESSION: Final = Session(("", 0))
"""For requests that come over no connection."""
