"""``GatewayClient``: the console's only way to the log and the views, the gateway's own HTTP, within the process.

Each answer is parsed JSON, or raises ``GatewayError`` with the problem's text. Used by one event loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import product, starmap
from typing import Any

import httpx

from mainstem.console.requests import ConsoleRequest
from mainstem.console.sign_in import Sessions
from mainstem.gateway.access.private_connections import PeerConnection
from mainstem.gateway.access.request_limits import AsgiApp
from mainstem.gateway.registry.registry_json import MEDIA_TYPE as REGISTRY_JSON

POLL_S = 15.0
WORK_S = 3_600.0
_JSON = ("application/json", REGISTRY_JSON)
_LOCAL = PeerConnection(is_encrypted=False, is_local=True)
_ELSEWHERE = "192.0.2.1"  # an address for documentation (RFC 5737): not this machine


class GatewayError(Exception):
    """The gateway returned an error, or did not answer (``status`` is 0)."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail


class GatewayClient:
    """Sends the console's requests to the gateway. Raises GatewayError."""

    def __init__(self, gateway: AsgiApp, sessions: Sessions, *, is_read_only: bool = False) -> None:
        self.is_read_only = is_read_only
        self._sessions = sessions
        self._clients = {
            each: _client(gateway, each) for each in starmap(PeerConnection, product((False, True), repeat=2))
        }

    def token_name(self, cookies: Mapping[str, str]) -> str | None:
        """The name of the token that a browser with these cookies signed in with."""
        return self._sessions.token_name(cookies)

    def token_of(self, cookies: Mapping[str, str]) -> str | None:
        """The token that a browser with these cookies signed in with."""
        return self._sessions.token_of(cookies)

    async def ask(
        self,
        asked: ConsoleRequest,
        *,
        token: str | None = None,
        timeout_s: float = POLL_S,
        connection: PeerConnection = _LOCAL,
    ) -> Any:
        """The answer's JSON, or its text where it is none. Raises GatewayError.

        ``connection``: the browser's own, for the gateway takes and shows secrets only on a private one.
        """
        client = self._clients[connection]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= asked.headers
        content = None if asked.body is None else json.dumps(asked.body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        request = client.build_request(asked.method, asked.target, headers=headers, content=content)
        try:
            answer = await asyncio.wait_for(client.send(request), timeout_s)
        except TimeoutError:
            raise GatewayError(0, "No answer", f"the gateway did not answer within {timeout_s:g} s") from None
        except httpx.HTTPError as error:
            raise GatewayError(0, "No answer", str(error) or type(error).__name__) from error
        if answer.is_error:
            raise _error(answer)
        media_type = answer.headers.get("content-type", "").partition(";")[0]
        return answer.json() if media_type in _JSON else answer.text


def _client(gateway: AsgiApp, connection: PeerConnection) -> httpx.AsyncClient:
    """A client whose requests come to the gateway as if over a connection of this kind."""
    address = "127.0.0.1" if connection.is_local else _ELSEWHERE
    transport = httpx.ASGITransport(app=gateway, raise_app_exceptions=False, client=(address, 0))
    scheme = "https" if connection.is_encrypted else "http"
    return httpx.AsyncClient(transport=transport, base_url=f"{scheme}://localhost", trust_env=False)


def _error(answer: httpx.Response) -> GatewayError:
    try:
        problem = answer.json()
        if "error_code" in problem:  # the schema registry's form
            return GatewayError(answer.status_code, "Schema registry", str(problem["message"]))
        return GatewayError(answer.status_code, str(problem["title"]), str(problem["detail"]))
    except (ValueError, KeyError, TypeError):
        return GatewayError(answer.status_code, "Refused", f"the gateway answered with status {answer.status_code}")
