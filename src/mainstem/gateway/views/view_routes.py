"""The routes of the views, declared once for the view host's process and for the public gateway.

Each handler checks its parameters into one frozen request of ``mainstem.views.requests``, and hands the backend a piece
of work: ask the host, write the answer as JSON.
"""

from __future__ import annotations

import time
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_args

from fastapi import Query, Request
from starlette.responses import Response

from mainstem.gateway.access.access_rules import ADMIN_VIEW, ANY_TOKEN, READ_VIEW
from mainstem.gateway.access.hop_headers import reader, sees_pipelines
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.access.token_auth import grants_of
from mainstem.gateway.http import queries
from mainstem.gateway.http.bodies import read_json
from mainstem.gateway.http.description import AT, EVENTS, KEY_ROWS, OBJECT, OF_VIEW, ROWS, Answers, Success, success
from mainstem.gateway.http.json_responses import POSITION_HEADER, json_response
from mainstem.gateway.http.key_paths import KEY
from mainstem.gateway.views.backend import ViewBackend
from mainstem.model import Position
from mainstem.views import requests
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import WatchRequest
from mainstem.views.verification.diff_request import DiffRequest

if TYPE_CHECKING:
    from mainstem.views.host.host import ViewHost
    from mainstem.views.status import RebuildFrom

_PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def view_router(backend: ViewBackend) -> Routes:
    """All routes under ``/views``."""
    router = Routes("views")
    _add_administration(router, backend)
    for request in get_args(requests.Request):
        if hasattr(request, "HTTP"):
            _add_query(router, backend, request)
    _add_key(router, backend)
    _add_past(router, backend)
    _add_applied(router, backend)
    _add_metrics_page(router, backend)
    _add_stream(router, backend)
    return router


def _add_administration(router: Routes, backend: ViewBackend) -> None:
    @router.declare(
        "GET",
        "/views",
        "Every view: kind, position, what it covers, how it is",
        ANY_TOKEN,
        success("The views", "Views"),
    )
    async def list_views(http: Request, _: Annotated[queries.NoQuery, Query()]) -> Response:
        grants, statuses = grants_of(http.scope), await backend.statuses()
        return json_response({"views": [each for each in statuses if grants.may("read", "view", str(each["name"]))]})

    @router.declare(
        "GET",
        "/views/{view}",
        "One view: kind, position, what it covers, how it is",
        READ_VIEW,
        success("The view", "ViewStatus"),
    )
    async def describe(http: Request, view: str, _: Annotated[queries.NoQuery, Query()]) -> Response:
        return await backend.respond(http, view, partial(_describe, view=view))

    @router.declare("POST", "/views/{view}/verify", "Compare the view with a replay of its topic", ADMIN_VIEW, OBJECT)
    async def verify(http: Request, view: str, query: Annotated[queries.VerifyQuery, Query()]) -> Response:
        return await backend.respond(http, view, partial(_verify, view=view, full=query.full))

    @router.declare("POST", "/views/{view}/rebuild", "Rebuild the view from the log", ADMIN_VIEW, OBJECT)
    async def rebuild(http: Request, view: str, query: Annotated[queries.RebuildQuery, Query()]) -> Response:
        return await backend.respond(http, view, partial(_rebuild, view=view, source=query.source))

    @router.declare(
        "DELETE", "/views/{view}", "Delete what is stored of the view; a rebuild restores it", ADMIN_VIEW, OBJECT
    )
    async def delete(http: Request, view: str, query: Annotated[queries.ConfirmQuery, Query()]) -> Response:
        queries.require_confirmation(query.confirm, view, "the store of view ")
        return await backend.respond(http, view, partial(_delete, view=view))


def _add_query(router: Routes, backend: ViewBackend, request: type[Any]) -> None:
    """The route of a request that has ``HTTP``."""
    query: requests.HttpQuery = request.HTTP
    body = queries.model_of(request, queries.NoQuery) if query.method == "POST" else None
    names = [each.name for each in fields(request)]

    async def ask(http: Request, view: str, wait: Any) -> Response:
        values = wait if body is None else await read_json(http, body)
        made = request(**{name: getattr(values, name) for name in names})
        return await backend.respond(http, view, _asking(http, view, made, wait))

    ask.__name__ = query.path
    ask.__annotations__["wait"] = Annotated[
        queries.model_of(request, queries.RowsQuery) if body is None else queries.RowsQuery, Query()
    ]
    answers = KEY_ROWS if query.pages else ROWS
    router.declare(query.method, f"/views/{{view}}/{query.path}", query.summary, READ_VIEW, answers, body=body)(ask)


def _add_key(router: Routes, backend: ViewBackend) -> None:
    @router.declare("GET", "/views/{view}/keys/" + KEY, "Key-value: the row of one key", READ_VIEW, ROWS)
    async def get_key(http: Request, view: str, key: str, query: Annotated[queries.RowsQuery, Query()]) -> Response:
        return await backend.respond(http, view, _asking(http, view, requests.GetQuery(key), query))


def _add_past(router: Routes, backend: ViewBackend) -> None:
    @router.declare("GET", "/views/{view}/diff", "Key-value and SQL: what changed between two moments", READ_VIEW, ROWS)
    async def diff(http: Request, view: str, query: Annotated[queries.DiffQuery, Query()]) -> Response:
        return await backend.respond(http, view, partial(_diff, view=view, request=query.request()))

    @router.declare(
        "GET",
        "/views/{view}/past",
        "Key-value and SQL: how far back the view answers, and its snapshots",
        READ_VIEW,
        Answers((Success(200, "The past", "ViewPast"),), OF_VIEW),
    )
    async def past(http: Request, view: str, _: Annotated[queries.NoQuery, Query()]) -> Response:
        return await backend.respond(http, view, partial(_past, view=view))


def _add_applied(router: Routes, backend: ViewBackend) -> None:
    @router.declare(
        "GET",
        "/views/{view}/applied",
        "Whether the view has applied a position of its topic, and by when",
        READ_VIEW,
        Answers((Success(200, "Whether, and by when", "Applied"),), OF_VIEW),
    )
    async def applied(http: Request, view: str, query: Annotated[queries.AppliedQuery, Query()]) -> Response:
        position = Position.parse(query.position)
        return await backend.respond(http, view, partial(_applied, view=view, position=position))

    @router.declare(
        "GET",
        "/views/{view}/waited",
        "Which of the newest reads waited for the view to reflect a record",
        ADMIN_VIEW,
        Answers((Success(200, "How many, for how long, and whose", "Waited"),), OF_VIEW),
    )
    async def waited(http: Request, view: str, query: Annotated[queries.WaitedQuery, Query()]) -> Response:
        record = Position.parse(query.record)
        return await backend.respond(http, view, partial(_waited, view=view, record=record))


def _add_stream(router: Routes, backend: ViewBackend) -> None:
    @router.declare("GET", "/views/{view}/stream", "A view's changes as server-sent events", READ_VIEW, EVENTS)
    async def stream_view(
        http: Request,
        view: str,
        query: Annotated[queries.ViewStreamQuery, Query()],
        last_event_id: queries.LastEventId = "",
    ) -> Response:
        since = last_event_id or query.start
        request = WatchRequest(query.key, query.prefix, None if since is None else Position.parse(since))
        return await backend.stream(http, view, request)


def _add_metrics_page(router: Routes, backend: ViewBackend) -> None:
    @router.declare(
        "GET",
        "/views/{view}/prometheus",
        "Metrics: everything in Prometheus' text format",
        READ_VIEW,
        Answers((Success(200, "Prometheus' text format", "Text", AT, "text/plain"),), OF_VIEW),
    )
    async def prometheus(http: Request, view: str, query: Annotated[queries.WaitQuery, Query()]) -> Response:
        return await backend.respond(http, view, partial(_page, view=view, options=_options(http, query)))


def _asking(http: Request, view: str, request: requests.Request, wait: queries.WaitQuery) -> Any:
    """The work that asks a host. The options are read here, so that a wrong one is refused before any hop.

    What the work waits for a thread counts as waited.
    """
    return partial(_ask, view=view, request=request, options=_options(http, wait), came_s=time.monotonic())


def _options(http: Request, wait: queries.WaitQuery) -> ReadOptions:
    return replace(wait.read_options(), sees_pipelines=sees_pipelines(http.headers), reader=reader(http.headers))


def _describe(host: ViewHost, *, view: str) -> Response:
    (status,) = host.status(view)
    return json_response(status.to_json())


def _verify(host: ViewHost, *, view: str, full: bool) -> Response:
    return json_response(host.verify(view, full=full).to_json())


def _rebuild(host: ViewHost, *, view: str, source: RebuildFrom) -> Response:
    return json_response(host.rebuild(view, source).to_json())


def _diff(host: ViewHost, *, view: str, request: DiffRequest) -> Response:
    answer = host.diff(view, request)
    return json_response(answer.to_json(), position=answer.end)


def _past(host: ViewHost, *, view: str) -> Response:
    return json_response(host.past(view).to_json())


def _applied(host: ViewHost, *, view: str, position: Position) -> Response:
    return json_response(host.applied(view, position).to_json())


def _waited(host: ViewHost, *, view: str, record: Position) -> Response:
    return json_response(host.waited(view, record).to_json())


def _delete(host: ViewHost, *, view: str) -> Response:
    host.delete(view)
    return json_response({"deleted": view})


def _page(host: ViewHost, *, view: str, options: ReadOptions) -> Response:
    answer = host.query(view, requests.MetricsPageQuery(), options)
    headers = {POSITION_HEADER: str(answer.position), "Content-Type": _PROMETHEUS_TEXT}
    return Response(str(answer.rows[0]["text"]), headers=headers)


def _ask(host: ViewHost, *, view: str, request: requests.Request, options: ReadOptions, came_s: float) -> Response:
    queued_s = round(time.monotonic() - came_s, 1)
    options = replace(options, timeout_s=max(0.0, options.timeout_s - queued_s))
    answer = host.query(view, request, options)
    document: dict[str, Any] = {"rows": answer.rows, "position": str(answer.position), "covers": str(answer.covers)}
    if options.checkpoints:
        document["checkpoints"] = answer.checkpoints
    if isinstance(request, requests.RangeQuery):
        document["next"] = answer.next
    return json_response(document, position=answer.position)
