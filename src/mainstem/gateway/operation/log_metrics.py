"""``GET /metrics``: the log process's metrics, asked for on its Unix socket and passed on, and the gateway's own.

The log counts by itself and serves Prometheus' text format. The gateway adds a counter of its own, of failures of
background tasks; how each view is, as its host says it; what pipelines count, as their drivers say it; and the files in
which the node's supervisor tells of restarts, and a backup or a mirror of how it is doing. Parts that do not answer in
time are left out of the page. Used by one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

import aiohttp
from fastapi import Query
from starlette.responses import Response

from mainstem.background import failures
from mainstem.broker.metrics.text_format import counter, gauge
from mainstem.client.log import Log
from mainstem.errors import MainstemError, UnavailableError
from mainstem.gateway.access.access_rules import READ_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.description import success
from mainstem.gateway.http.queries import NoQuery
from mainstem.gateway.http.unix_http import UnixHttp
from mainstem.gateway.views.backend import ViewBackend
from mainstem.pipelines.overview import Overview

_TIMEOUT_S = 10.0
BACKUP_FILE: Final = "backup.prom"
MIRROR_FILE: Final = "mirror.prom"
_THREADS_MAX: Final = 2
_FAMILIES: Final[tuple[tuple[str, str, Callable[[Mapping[str, Any]], float]], ...]] = (
    ("up", "1 while the view applies and answers", lambda status: int(status["state"] in ("live", "catching up"))),
    ("lag_offsets", "Offsets between the view and the log's end", lambda status: status["lag"]),
    ("dead_letters", "Records that the view could not apply", lambda status: status["dead_letters"]),
    ("damaged_offsets", "Offsets that could not be read and were skipped", lambda status: status["damaged_offsets"]),
)


class LogMetrics:
    """The log's socket, and the files of the supervisor, the backup and a mirror, where there are such."""

    def __init__(self, socket: Path, supervisor: Path | None = None) -> None:
        names = (BACKUP_FILE, MIRROR_FILE)
        self._files = [] if supervisor is None else [supervisor, *(supervisor.with_name(name) for name in names)]
        self._client = UnixHttp(socket, silence_s=_TIMEOUT_S, connect_s=_TIMEOUT_S)

    async def page(self) -> Response:
        """The log's metrics now, and the gateway's own. Raises UnavailableError."""
        try:
            answer = await self._client.send("GET", "/metrics")
            page = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnavailableError("the log does not answer with its metrics; it restarts by itself") from error
        if answer.status != HTTPStatus.OK:
            raise UnavailableError("the log is busy with other requests for metrics; try again in a moment")
        others = b"".join(each.read_bytes() for each in self._files if each.exists())
        return Response(page + own_metrics() + others, headers={"Content-Type": answer.headers["content-type"]})

    async def close(self) -> None:
        """Close the connections to the log."""
        await self._client.close()


def own_metrics() -> bytes:
    """The family of the gateway itself."""
    name = "mainstem_gateway_background_failures_total"
    lines = [f"# HELP {name} Unexpected errors of background tasks of the gateway.", f"# TYPE {name} counter"]
    lines += [f'{name}{{task="{task}"}} {count}' for task, count in sorted(failures().items())]
    return "\n".join([*lines, ""]).encode()


def metrics_router(metrics: LogMetrics | None, views: ViewBackend, log: Log) -> Routes:
    """``/metrics``, if the log's socket is known."""
    router = Routes("operation")
    workers, pipelines = Workers(_THREADS_MAX), Overview(log)
    if metrics is not None:

        @router.declare(
            "GET",
            "/metrics",
            "The metrics of the log and the views in Prometheus' text format",
            READ_ALL,
            success("Prometheus' text format", "Text", (), "text/plain"),
        )
        async def tell(_: Annotated[NoQuery, Query()]) -> Response:
            page, statuses, states = await asyncio.gather(
                metrics.page(), _in_time(views.statuses()), _in_time(workers.run(pipelines.latest))
            )
            own = view_metrics(statuses) + pipeline_metrics(states)
            content_type = page.headers["content-type"]
            return Response(bytes(page.body) + own.encode(), headers={"Content-Type": content_type})

    return router


async def _in_time(documents: Awaitable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await documents
    except (MainstemError, TimeoutError):
        return []


def view_metrics(statuses: Sequence[Mapping[str, Any]]) -> str:
    """The families of the views, from their statuses; nothing where there are none."""
    if not statuses:
        return ""
    labels = [{"view": status["name"], "kind": status["kind"], "topic": status["topic"]} for status in statuses]
    return "".join(
        gauge(f"mainstem_view_{name}", text, zip(labels, map(value, statuses), strict=True))
        for name, text, value in _FAMILIES
    )


_CAPTURE_FAMILIES = (
    ("lag_bytes", "lag_bytes", "How much of the database's log has not been confirmed as captured"),
    ("slot_kept_bytes", "kept_bytes", "How much of its log the database keeps for the capture's slot"),
    ("snapshots_pending", "snapshots_pending", "Tables whose snapshot is not done"),
)


def pipeline_metrics(pipelines: Sequence[Mapping[str, Any]]) -> str:
    """The family of the pipelines, from ``Overview``; nothing where there are none."""
    samples = [
        ({"pipeline": pipeline["name"], "topic": topic, "column": column}, number)
        for pipeline in pipelines
        for topic, columns in pipeline.get("nulled_values", {}).items()
        for column, number in columns.items()
    ]
    text = (
        "Values that became null because they do not fit the column of the topic, since the pipeline's driver started"
    )
    nulled = counter("mainstem_pipeline_nulled_values_total", text, samples) if samples else ""
    return nulled + _capture_metrics(pipelines)


def _capture_metrics(pipelines: Sequence[Mapping[str, Any]]) -> str:
    """The family of the captures of databases; empty without captures."""
    databases = {each["name"]: each["database"] for each in pipelines if each.get("database")}
    families = [
        (name, text, [({"capture": capture}, found[field]) for capture, found in databases.items() if field in found])
        for name, field, text in _CAPTURE_FAMILIES
    ]
    return "".join(gauge(f"mainstem_capture_{name}", text, samples) for name, text, samples in families if samples)
