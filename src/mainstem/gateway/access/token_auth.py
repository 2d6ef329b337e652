"""Authentication by bearer tokens (RFC 6750): ``Authorization: Bearer …`` on each request, checked by ``access_rules``.

Without a token file every request is allowed. With one, a request without a known token gets 401, and a request whose
token lacks the scope gets 403. The token's grants are kept with the request, so lists show only what they allow.

Plain ASGI in front of every route, of static files and of WebSockets; used by one event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from mainstem.errors import AuthenticationError, AuthorizationError
from mainstem.gateway.access.access_rules import ADMIN_ALL, AccessRules
from mainstem.gateway.access.request_limits import AsgiApp, Receive, Scope, Send
from mainstem.gateway.access.tokens import ALL, Grants, TokenFile
from mainstem.gateway.http.problem_responses import problem_response
from mainstem.problems import problem_of

_GRANTS: Final = "mainstem.grants"
_NAME: Final = "mainstem.token"
_TOKEN_BYTES_MAX: Final = 512
_REALM: Final = 'Bearer realm="mainstem"'


def grants_of(scope: Mapping[str, Any]) -> Grants:
    """The grants of a request's sender."""
    found = scope.get(_GRANTS, ALL)
    assert isinstance(found, Grants)
    return found


def token_name(scope: Mapping[str, Any]) -> str | None:
    """The name of the token that a request sent; None where no tokens are asked for."""
    found = scope.get(_NAME)
    return None if found is None else str(found)


class TokenAuth:
    """ASGI middleware that asks for tokens, if there are any."""

    def __init__(self, app: AsgiApp, tokens: TokenFile | None, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._tokens is None or scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope, self._tokens)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await refusal(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, scope: Scope, tokens: TokenFile) -> Response | None:
        """Why this request is not served; None when it may pass."""
        rule, path = (
            self._rules.rule_for(scope["method"], scope["path"]) if scope["type"] == "http" else (ADMIN_ALL, {})
        )
        if rule.is_open:
            return None
        presented = presented_token(scope)
        if presented is None:
            return _unknown(
                "send a token: Authorization: Bearer …; commands and the Python client take it from MAINSTEM_TOKEN",
                _REALM,
            )
        token = tokens.find(presented)
        if token is None:
            return unknown_token()
        if not rule.admits(token.grants, path):
            error = AuthorizationError(f"token {token.name} may not do this: it asks for {rule.wanted(path)}")
            challenge = f'{_REALM}, error="insufficient_scope"'
            return problem_response(problem_of(error), {"WWW-Authenticate": challenge})
        scope[_GRANTS] = token.grants
        scope[_NAME] = token.name
        return None


def presented_token(scope: Mapping[str, Any]) -> str | None:
    """The token of a request; None when it has none that could be one."""
    values = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(values) != 1 or len(values[0]) > _TOKEN_BYTES_MAX:
        return None
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def unknown_token() -> Response:
    """The answer to a token that is not known."""
    return _unknown(
        "this token is unknown, or was revoked; mainstem tokens create makes a new one",
        f'{_REALM}, error="invalid_token"',
    )


def _unknown(detail: str, challenge: str) -> Response:
    return problem_response(problem_of(AuthenticationError(detail)), {"WWW-Authenticate": challenge})
