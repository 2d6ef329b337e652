"""The public HTTP API: topics, views (forwarded to their hosts) and operation, in one FastAPI app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig

import mainstem
from mainstem.client.log import Log
from mainstem.gateway.access.cors import Cors
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.request_limits import RequestLimits
from mainstem.gateway.access.routes import Routes, answers_of, rules_of
from mainstem.gateway.access.token_auth import TokenAuth
from mainstem.gateway.access.tokens import TokenFile
from mainstem.gateway.durable.durable_stream_routes import durable_stream_router
from mainstem.gateway.http.description import completed
from mainstem.gateway.http.description_page import add_description_page
from mainstem.gateway.http.problem_pages import problem_pages_router
from mainstem.gateway.http.problem_responses import install
from mainstem.gateway.monitoring.client_routes import client_router
from mainstem.gateway.monitoring.monitor import Monitor, start
from mainstem.gateway.monitoring.monitoring_routes import monitoring_router
from mainstem.gateway.operation.acl_routes import acl_router
from mainstem.gateway.operation.config_routes import config_router
from mainstem.gateway.operation.group_routes import group_router
from mainstem.gateway.operation.journey_routes import journey_router
from mainstem.gateway.operation.log_metrics import LogMetrics, metrics_router
from mainstem.gateway.operation.operation_routes import operation_router
from mainstem.gateway.operation.token_routes import token_router
from mainstem.gateway.operation.user_routes import user_router
from mainstem.gateway.registry.registry_app import PREFIX, add_registry_errors, registry_router
from mainstem.gateway.requests.request_routes import RequestRoutes
from mainstem.gateway.streams.browser_module import browser_router
from mainstem.gateway.streams.event_stream import Streams
from mainstem.gateway.streams.stream_routes import stream_router
from mainstem.gateway.topics.dead_letter_routes import dead_letter_router
from mainstem.gateway.topics.topic_changes import topic_changes_router
from mainstem.gateway.topics.topic_details import topic_details_router
from mainstem.gateway.topics.topic_routes import topic_router
from mainstem.gateway.topics.tree_routes import tree_router
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.gateway.views.view_routes import view_router
from mainstem.schemas_topic.records import SCHEMAS_TOPIC

_TELEMETRY: Final[TelemetryConfig] = {
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""A span for each request, if the process exports spans (``tracing.export``). Metrics are at ``/metrics``."""


def create_app(
    log: Log,
    views: ForwardingBackend,
    limits: GatewayLimits,
    metrics: LogMetrics | None = None,
    tokens: TokenFile | None = None,
    monitor: Monitor | None = None,
) -> FastAPI:
    """The gateway's app over a log, the view hosts' sockets and the one of the log's metrics, if that is known.

    With ``tokens`` each request has to send one. ``monitor`` keeps the history and finds problems.
    """
    requests = RequestRoutes(log)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sampling = None if monitor is None else start(monitor)
        yield
        if sampling is not None:
            sampling.cancel()
        await requests.close()
        await views.close()
        if metrics is not None:
            await metrics.close()

    streams = views.streams
    streams.at_end(requests.end)
    routers = (
        topic_router(log),
        topic_details_router(log, views.statuses),
        topic_changes_router(log),
        journey_router(log, views),
        tree_router(log),
        dead_letter_router(log),
        requests.router(),
        stream_router(log, streams),
        durable_stream_router(log, streams),
        browser_router(),
        view_router(views),
        operation_router(log),
        group_router(log),
        user_router(log, has_tokens=tokens is not None),
        acl_router(log, has_tokens=tokens is not None),
        token_router(tokens),
        config_router(log, limits),
        metrics_router(metrics, views, log),
        client_router(metrics),
        monitoring_router(monitor),
        registry_router(log),
    )
    app = assemble("Mainstem", routers, limits, lifespan, streams=streams, tokens=tokens)
    add_registry_errors(app, PREFIX)
    app.include_router(problem_pages_router())
    add_description_page(app)
    return app


def create_registry_app(
    log: Log, limits: GatewayLimits, tokens: TokenFile | None = None, topic: str = SCHEMAS_TOPIC
) -> FastAPI:
    """An app of the schema registry alone, at the root of its address. It keeps its schemas in ``topic``."""
    routers = (registry_router(log, "", topic),)
    app = assemble("Mainstem schema registry", routers, limits, streams=Streams(), tokens=tokens)
    add_registry_errors(app, "")
    return app


def assemble(
    title: str,
    routers: tuple[Routes, ...],
    limits: GatewayLimits,
    lifespan: Any = None,
    *,
    streams: Streams,
    tokens: TokenFile | None = None,
) -> FastAPI:
    """An app of these routers, with problems for errors. Request limits come first, then token authentication.

    ``streams`` are those of its routes: end them before the server is stopped (``app.state.streams``).
    """
    app = FastAPI(
        title=title,
        version=mainstem.__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry=_TELEMETRY,
    )
    app.state.streams = streams
    for router in routers:
        app.routes.extend(router.routes)  # one list: the framework would look through included routers twice
    install(app)
    # The last one added is the first that a request meets.
    app.add_middleware(TokenAuth, tokens=tokens, rules=rules_of(routers))
    app.add_middleware(RequestLimits, limits=limits)
    app.add_middleware(Cors, limits=limits)
    _describe_truly(app, routers)
    return app


def _describe_truly(app: FastAPI, routers: tuple[Routes, ...]) -> None:
    """Describe the answers of the routes, without the framework's own 422: invalid requests get 400 here."""
    describe = app.openapi

    @cache
    def openapi() -> dict[str, Any]:
        return completed(describe(), answers_of(routers))

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to change it
