"""``mainstem mcp``: the gateway as an MCP server, for agents. A client of the HTTP gateway."""

from __future__ import annotations

from typing import Annotated

import typer

from mainstem.cli import options
from mainstem.cli.output import out
from mainstem.extras import require

_BYTES = 50_000
_BYTES_MIN = 4_000
_BYTES_MAX = 1_000_000


def mcp(
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve HTTP on loopback instead of stdio (port 0: any)."),
    ] = None,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Offer tools that append and rebuild; the token must allow them.")
    ] = False,
    answer_bytes: Annotated[
        int, typer.Option("--answer-bytes", min=_BYTES_MIN, max=_BYTES_MAX, help="Bytes of an answer, at most.")
    ] = _BYTES,
    url: options.Url = options.DEFAULT_URL,
) -> None:
    """Serve topics and views to agents by the Model Context Protocol: read-only, over stdio or HTTP."""
    require("mcp")
    from mainstem.mcp.gateway import McpGateway
    from mainstem.mcp.serving import serve_http, serve_stdio

    gateway = McpGateway(url, bytes_max=answer_bytes)
    if http is None:
        serve_stdio(gateway, writes=allow_writes)
    else:
        serve_http(gateway, http, writes=allow_writes, on_ready=lambda address: out(f"ready: mcp {address}"))
