"""``PeerConnection``: passwords and new tokens pass only where others cannot listen in.

That is over TLS, or from this machine to itself. Behind a proxy on this machine its ``X-Forwarded-For`` and
``X-Forwarded-Proto`` count, which the server has put into the scope already. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mainstem.addresses import is_loopback
from mainstem.gateway.http.problem_responses import HttpError


class PeerConnection(NamedTuple):
    """How a request or a websocket came in."""

    is_encrypted: bool
    is_local: bool

    @property
    def is_private(self) -> bool:
        """Whether others cannot listen in."""
        return self.is_encrypted or self.is_local


def connection_of(scope: Mapping[str, Any]) -> PeerConnection:
    """The connection of a request or a websocket."""
    client = scope.get("client")
    is_local = client is not None and is_loopback(str(client[0]))
    return PeerConnection(scope.get("scheme") in ("https", "wss"), is_local)


def require_private(scope: Mapping[str, Any], secret: str) -> None:
    """Raise HttpError 403 where others could read the secret."""
    if not connection_of(scope).is_private:
        raise HttpError(
            403,
            f"{secret} passes only over TLS, or from the gateway's own machine: others could read it on the way. Start "
            "the gateway with --http-tls-cert, or ask it on its machine",
        )


def require_known_sender(scope: Mapping[str, Any], *, has_tokens: bool) -> None:
    """Raise HttpError 403 for a request from elsewhere to a gateway that asks for no tokens."""
    if not has_tokens and not connection_of(scope).is_local:
        raise HttpError(
            403,
            "this gateway asks for no tokens, so users and ACLs are shown and changed only from its own machine: start "
            "it with --http-tokens",
        )
