"""Serve the tools over standard input and output, or as streamable HTTP at ``/mcp`` on loopback.

Over HTTP only requests that name this address, and come from no page or from a page of this address, are answered:
so a web page cannot reach the server by a name of its own (DNS rebinding).
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from mainstem.addresses import Address, is_loopback, parse_address
from mainstem.errors import ConfigError
from mainstem.gateway.server.serving import EndingServer, listen_tcp
from mainstem.mcp.gateway import McpGateway
from mainstem.mcp.server import create_server

_REQUEST_BYTES_MAX: Final = 4 << 20
_SESSIONS_MAX: Final = 64
_REQUESTS_MAX: Final = 256
_IDLE_S: Final = 3600.0
_GRACE_S: Final = 2


def serve_stdio(gateway: McpGateway, *, writes: bool) -> None:
    """Serve one client until it closes standard input."""
    create_server(gateway, writes=writes).run("stdio")


def serve_http(gateway: McpGateway, address: str, *, writes: bool, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal. ``on_ready`` gets the URL. Raises ConfigError, AddressInUseError."""
    host, _ = parse_address(address)
    if not is_loopback(host):
        raise ConfigError(f"{address}: MCP over HTTP listens on loopback only; use 127.0.0.1, and a tunnel from afar")
    listening = listen_tcp(address, insecure=False)
    bound = Address(*listening.getsockname()[:2])
    names = {str(bound), f"localhost:{bound.port}", f"127.0.0.1:{bound.port}", f"[::1]:{bound.port}"}
    app = create_server(gateway, writes=writes).streamable_http_app(
        max_request_body_size=_REQUEST_BYTES_MAX,
        max_sessions=_SESSIONS_MAX,
        session_idle_timeout=_IDLE_S,
        transport_security=TransportSecuritySettings(
            allowed_hosts=sorted(names), allowed_origins=sorted(f"http://{name}" for name in names)
        ),
    )
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=_REQUESTS_MAX,
        timeout_graceful_shutdown=_GRACE_S,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises what it caught once more when it has stopped
    EndingServer(config, lambda: on_ready(f"http://{bound}/mcp"), lambda: None).run(sockets=[listening])
