"""The state of a connection besides its requests: its principal, and the address by which the client came.

Each connection owns one session; its requests carry it. Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mainstem.broker.security.principal import ANONYMOUS, Principal
from mainstem.broker.security.sasl import Authentication


class Session:
    """A connection's state. ``advertised`` is the address of the node that this client gets.

    ``authentication`` is set on listeners that require a login. ``client_software`` is the name and the version of the
    client's library, as it says in ApiVersions.
    """

    __slots__ = ("_at_end", "_principal", "advertised", "authentication", "client_port", "client_software")

    def __init__(
        self,
        advertised: tuple[str, int],
        principal: Principal = ANONYMOUS,
        authentication: Authentication | None = None,
    ) -> None:
        self.advertised = advertised
        self.authentication = authentication
        self.client_port = 0
        self.client_software = ("", "")
        self._principal = principal
        self._at_end: dict[object, Callable[[], None]] = {}

    @property
    def principal(self) -> Principal:
        """The authenticated principal; anonymous before authentication."""
        return self._principal if self.authentication is None else self.authentication.principal

    def when_closed(self, what: object, call: Callable[[], None]) -> None:
        """Register ``call`` to run when the connection closes; it replaces an earlier call for the same ``what``."""
        self._at_end[what] = call

    def forget(self, what: object) -> None:
        """Remove the call for ``what``."""
        self._at_end.pop(what, None)

    def close(self) -> None:
        """Run all registered calls: the connection is closed."""
        calls, self._at_end = self._at_end, {}
        for call in calls.values():
            call()


NO_SESSION: Final = Session(("", 0))
"""The session of requests without a connection."""
