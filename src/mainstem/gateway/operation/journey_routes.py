"""The route of a record's journey: where it went, where it came from, and what it waits for.

The pipelines' part comes from the log alone. The views' part comes from their hosts: when each had applied what came of
the record. A host that does not answer leaves a note; the rest is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request
from starlette.responses import Response

from mainstem.client.log import Log
from mainstem.errors import UnavailableError
from mainstem.gateway.access.access_rules import READ_TOPIC
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.access.token_auth import grants_of
from mainstem.gateway.access.tokens import Grants
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.description import success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import JourneyQuery
from mainstem.gateway.topics.topic_routes import check_name
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import TopicPartition
from mainstem.pipelines.journey.journey import JourneyFinder, Sees
from mainstem.pipelines.journey.steps import Journey
from mainstem.pipelines.journey.view_steps import ViewStep, view_steps
from mainstem.pipelines.overview import Overview

_THREADS_MAX: Final = 4
_VIEWS_MAX: Final = 50


def journey_router(log: Log, views: ForwardingBackend) -> Routes:
    """``/topics/{topic}/records/{partition}/{offset}/journey``."""
    router, workers, finder = Routes("topics"), Workers(_THREADS_MAX), JourneyFinder(log, Overview(log))

    @router.declare(
        "GET",
        "/topics/{topic}/records/{partition}/{offset}/journey",
        "The journey of a record: which pipelines and views have it, what came of it, what it waits for",
        READ_TOPIC,
        success("The journey", "Journey"),
    )
    async def journey(
        http: Request,
        topic: str,
        partition: Annotated[int, Path(ge=0, le=2**31 - 1)],
        offset: Annotated[int, Path(ge=0, le=2**63 - 2)],
        query: Annotated[JourneyQuery, Query()],
    ) -> Response:
        check_name(topic)
        grants = grants_of(http.scope)
        sees = Sees(lambda name: grants.may("read", "topic", name), errors=grants.may_everything("read"))
        found = await workers.run(finder.find, TopicPartition(topic, partition), offset, sees)
        steps, note = await _views(found, views, grants) if query.views else ([], None)
        return json_response({**found.to_json(), "views": [each.to_json() for each in steps], "views_note": note})

    return router


async def _views(journey: Journey, views: ForwardingBackend, grants: Grants) -> tuple[Sequence[ViewStep], str | None]:
    """The views on the way, and why some may be missing."""
    try:
        statuses = await views.statuses()
    except UnavailableError as error:
        return (), f"the views are not known: {error}"
    visible: list[dict[str, Any]] = [each for each in statuses if grants.may("read", "view", str(each["name"]))]
    steps = view_steps(journey.arrivals, visible)
    note = None if len(steps) <= _VIEWS_MAX else f"{len(steps) - _VIEWS_MAX} more views are not shown"
    return await asyncio.gather(*(_timed(step, views) for step in steps[:_VIEWS_MAX])), note


async def _timed(step: ViewStep, views: ForwardingBackend) -> ViewStep:
    """The step with the time by which the view had applied it."""
    if not step.is_applied or not step.until:
        return step
    applied = await views.applied(step.view, step.until)
    if applied is None:
        return step
    return replace(step, applied_ms=applied["time_ms"], is_before=applied["before"])
