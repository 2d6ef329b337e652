"""``ReadOnly``: the gateway as a console sees it that only reads (``--console-read-only``).

Every page reaches the gateway through it, so a change is refused whatever the page shows. The gateway's own clients are
not affected. Plain ASGI, stateless.
"""

from __future__ import annotations

from typing import Final

from mainstem.gateway.access.access_rules import AccessRules
from mainstem.gateway.access.request_limits import AsgiApp, Receive, Scope, Send
from mainstem.gateway.http.problem_responses import http_problem

_READS: Final = ("GET", "HEAD")


class ReadOnly:
    """ASGI middleware that lets reads through, by the scope that each route requires, and refuses the others (403)."""

    def __init__(self, app: AsgiApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._changes(scope["method"], scope["path"]):
            refusal = http_problem(
                403, "this console only reads (--console-read-only): use a command, or the gateway's HTTP, for changes"
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _changes(self, method: str, path: str) -> bool:
        """Whether a request may change something. A question that is sent as a POST requires the scope read."""
        return method not in _READS and self._rules.rule_for(method, path)[0].scope != "read"
