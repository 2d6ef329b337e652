"""Sign-in to the console where the gateway requires tokens: a small page takes the token, a cookie names the session.

1. A page of the console without a session is answered with the sign-in page (401): plain HTML, nothing of it is kept.
2. It sends the token to ``SIGN_IN`` as any client sends it. A token that is known gets a session: a random id in a
   cookie that scripts cannot read, and that the browser sends to this host alone.
3. Pages and websockets of the console need the cookie. The console asks the API with the session's token; the API
   itself never looks at cookies, so another site's page gets nothing out of them.

A session ends when its token is revoked, when ``SESSIONS_MAX`` newer ones were opened, or with the process. The token
is kept in memory alone. Used by one event loop.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, Response

from mainstem.gateway.access.token_auth import presented_token, unknown_token
from mainstem.gateway.access.tokens import TokenFile

SIGN_IN: Final = "/console/sign-in"
SESSIONS_MAX: Final = 256
_COOKIE: Final = "mainstem_console"


class Sessions:
    """The sessions of one gateway's console. Without ``tokens`` none is needed."""

    def __init__(self, tokens: TokenFile | None) -> None:
        self._tokens = tokens
        self._opened: dict[str, str] = {}

    def token_of(self, cookies: Mapping[str, str]) -> str | None:
        """The token of a browser's session, if it has one that is still known."""
        session = cookies.get(_COOKIE, "")
        token = self._opened.get(session)
        if token is not None and self._tokens is not None and self._tokens.find(token) is None:
            del self._opened[session]
            return None
        return token

    def token_name(self, cookies: Mapping[str, str]) -> str | None:
        """The name of a browser's token; None where no tokens are asked for."""
        token = self.token_of(cookies)
        found = self._tokens.find(token) if self._tokens is not None and token is not None else None
        return None if found is None else found.name

    def admits(self, scope: MutableMapping[str, Any]) -> bool:
        """Whether a request for a page or a websocket of the console is served.

        The cookies are read as browsers send them: those of other applications on this host come along, whatever they
        hold.
        """
        return self._tokens is None or self.token_of(HTTPConnection(scope).cookies) is not None

    def open(self, scope: Mapping[str, Any]) -> Response:
        """The answer to a request with a token: a session, or 401."""
        token = presented_token(scope)
        if self._tokens is None or token is None or self._tokens.find(token) is None:
            return unknown_token()
        while len(self._opened) >= SESSIONS_MAX:
            del self._opened[next(iter(self._opened))]
        session = secrets.token_urlsafe(32)
        self._opened[session] = token
        answer = Response(status_code=204)
        is_secure = scope.get("scheme") == "https"
        answer.set_cookie(_COOKIE, session, path="/", httponly=True, samesite="lax", secure=is_secure)
        return answer


def sign_in_page() -> Response:
    """The page that asks for a token."""
    return HTMLResponse(_PAGE, status_code=401, headers={"Cache-Control": "no-store"})


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in · Mainstem</title>
<meta name="viewport" content="width=device-width"><style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; margin: 15vh auto; width: min(90vw, 26rem) }
input, button { font: inherit; padding: .4rem .6rem; box-sizing: border-box; width: 100%; margin-top: .4rem }
</style></head><body><h1>Mainstem</h1>
<form><label>Bearer token<input type="password" autocomplete="off" autofocus required></label>
<button>Sign in</button><p role="alert"></p></form><script>
document.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = document.querySelector("input").value.trim();
  const answer = await fetch("/console/sign-in", {method: "POST", headers: {"Authorization": "Bearer " + token}});
  if (answer.ok) location.reload();
  else document.querySelector("p").textContent = (await answer.json()).detail;
});
</script></body></html>"""
