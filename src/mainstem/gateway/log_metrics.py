"""``GET /metrics``: the log process's metrics, asked for on its Unix socket and passed on as they come.

The log counts by itself and serves Prometheus' text format. The gateway adds one counter of its own, of failures of
background tasks. Used by one event loop.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import aiohttp
from fastapi import APIRouter, Query
from starlette.responses import Response

from mainstem.background import failures
from mainstem.errors import UnavailableError
from mainstem.gateway.queries import NoQuery
from mainstem.gateway.unix_http import UnixHttp

_TIMEOUT_S = 10.0


class LogMetrics:
    """The log's socket."""

    def __init__(self, socket: Path) -> None:
        self._client = UnixHttp(socket, silence_s=_TIMEOUT_S, connect_s=_TIMEOUT_S)

    async def page(self) -> Response:
        """What the log says now. Raises UnavailableError."""
        try:
            answer = await self._client.send("GET", "/metrics")
            page = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnavailableError("the log does not tell its metrics; it is started again by itself") from error
        if answer.status != HTTPStatus.OK:
            raise UnavailableError("the log is telling its metrics to others; try again in a moment")
        return Response(page + _own_metrics(), headers={"Content-Type": answer.headers["content-type"]})

    async def close(self) -> None:
        """Close the connections to the log."""
        await self._client.close()


def _own_metrics() -> bytes:
    name = "mainstem_gateway_background_failures_total"
    lines = [f"# HELP {name} Errors of background tasks of the gateway that nobody foresaw.", f"# TYPE {name} counter"]
    lines += [f'{name}{{task="{task}"}} {count}' for task, count in sorted(failures().items())]
    return "\n".join([*lines, ""]).encode()


def metrics_router(metrics: LogMetrics | None) -> APIRouter:
    """``/metrics``, where the log's socket is known."""
    router = APIRouter(tags=["operation"])
    if metrics is not None:

        @router.get("/metrics", summary="The log's metrics in Prometheus' text format")
        async def tell(_: Annotated[NoQuery, Query()]) -> Response:
            return await metrics.page()

    return router
