"""Whether others can listen in on a request: passwords and new tokens pass only where they cannot.

That is over TLS, or from this machine to itself. Behind a proxy on this machine its ``X-Forwarded-For`` and
``X-Forwarded-Proto`` count, which the server has put into the scope already. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainstem.addresses import is_loopback
from mainstem.gateway.http.problem_responses import HttpError


def is_private(scope: Mapping[str, Any]) -> bool:
    """Whether a request or a websocket came over TLS or from this machine."""
    client = scope.get("client")
    return scope.get("scheme") in ("https", "wss") or (client is not None and is_loopback(str(client[0])))


def require_private(scope: Mapping[str, Any], secret: str) -> None:
    """Raise HttpError 403 where others could read the secret."""
    if not is_private(scope):
        raise HttpError(
            403,
            f"{secret} passes only over TLS, or from the gateway's own machine: others could read it on the way. Start "
            "the gateway with --http-tls-cert, or ask it on its machine",
        )
