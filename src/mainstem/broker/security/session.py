"""What is known of a connection beside its requests: who is at its other end, and the address that it came to.

One for each connection, owned by it; requests carry it. Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mainstem.broker.security.principal import ANONYMOUS, Principal
from mainstem.broker.security.sasl import Authentication


class Session:
    """A connection's state. ``advertised`` is the address that this client is told of the node.

    ``authentication`` is there on listeners that ask for a user.
    """

    __slots__ = ("_at_end", "_principal", "advertised", "authentication")

    def __init__(
        self,
        advertised: tuple[str, int],
        principal: Principal = ANONYMOUS,
        authentication: Authentication | None = None,
    ) -> None:
        self.advertised = advertised
        self.authentication = authentication
        self._principal = principal
        self._at_end: dict[object, Callable[[], None]] = {}

    @property
    def principal(self) -> Principal:
        """Who is at the other end, as far as it is proven."""
        return self._principal if self.authentication is None else self.authentication.principal

    def when_closed(self, what: object, call: Callable[[], None]) -> None:
        """Make ``call`` when the connection is closed; it replaces an earlier one for the same thing."""
        self._at_end[what] = call

    def forget(self, what: object) -> None:
        """Do not make the call for ``what`` any more."""
        self._at_end.pop(what, None)

    def close(self) -> None:
        """The connection is closed: say so to everyone who asked."""
        calls, self._at_end = self._at_end, {}
        for call in calls.values():
            call()


NO_SESSION: Final = Session(("", 0))
"""For requests that come over no connection."""
