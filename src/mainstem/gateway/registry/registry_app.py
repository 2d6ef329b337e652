"""The registry's routes as one router, and an app of the registry alone."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import Response

from mainstem.client.log import Log
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.registry.apicurio_routes import add_apicurio_routes
from mainstem.gateway.registry.association_routes import add_association_routes
from mainstem.gateway.registry.registry_errors import error_body
from mainstem.gateway.registry.registry_paths import RegistryPaths, is_below
from mainstem.gateway.registry.schema_routes import add_schema_routes
from mainstem.gateway.registry.setting_routes import add_setting_routes
from mainstem.gateway.registry.subject_routes import add_subject_routes
from mainstem.registry.errors import RegistryError
from mainstem.registry.registry import Registry
from mainstem.schemas_topic.records import SCHEMAS_TOPIC

PREFIX = "/registry"
_READS_MAX = 8
_WRITES_MAX = 8
"""Registrations and comparisons may last, and writes wait for each other: readers have threads of their own."""
_DEFECT = "the request met a defect; the process's log has the details"


def registry_router(log: Log, prefix: str = PREFIX, topic: str = SCHEMAS_TOPIC) -> Routes:
    """All routes of the registry below ``prefix``; it keeps its schemas in ``topic``."""
    router, registry = Routes("registry"), Registry(log, topic)
    readers, writers = Workers(_READS_MAX), Workers(_WRITES_MAX)
    add_schema_routes(router, prefix, registry, log, readers)
    add_subject_routes(router, prefix, registry, readers, writers)
    add_setting_routes(router, prefix, registry, readers, writers)
    add_association_routes(router, prefix, registry, readers, writers)
    add_apicurio_routes(router, prefix, registry, readers, writers)
    return router


def add_registry_errors(app: FastAPI, prefix: str) -> None:
    """Answer every error below ``prefix`` in the registry's form. To be called after the app's other middleware."""

    async def on_registry_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RegistryError)
        return _error(request.url.path.removeprefix(prefix), error.status, error.code, str(error))

    app.add_exception_handler(RegistryError, on_registry_error)
    app.add_middleware(RegistryPaths, prefix=prefix)
    on_defect = app.exception_handlers[Exception]

    async def on_defect_here(request: Request, error: Exception) -> Response:
        found: Response = await on_defect(request, error)  # type: ignore[misc]  # logs it
        path = request.url.path
        return _error(path.removeprefix(prefix), 500, 500, _DEFECT) if is_below(prefix, path) else found

    app.add_exception_handler(Exception, on_defect_here)


def _error(path: str, status: int, code: int, message: str) -> Response:
    body, media_type = error_body(path, status, code, message)
    return Response(body, status, media_type=media_type)
