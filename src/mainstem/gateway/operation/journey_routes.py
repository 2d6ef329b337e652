"""The routes of journeys: where a record went, where it or a view's row came from, and what it waits for.

The pipelines' part comes from the log alone. The views' part comes from their hosts: when each had applied what came of
the record. A host that does not answer leaves a note; the rest is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request
from starlette.responses import Response

from mainstem.client.log import Log
from mainstem.client.values import key_bytes
from mainstem.encodings.encoded_records import encoded_records
from mainstem.errors import AuthorizationError, UnavailableError, UnknownViewError, ViewStoppedError
from mainstem.gateway.access.access_rules import READ_TOPIC, READ_VIEW
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.access.token_auth import grants_of
from mainstem.gateway.access.tokens import Grants
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.description import success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import JourneyQuery, RowJourneyQuery
from mainstem.gateway.topics.topic_routes import check_name
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import Position, Record, TopicPartition
from mainstem.pipelines.journey.journey import JourneyFinder, Sees
from mainstem.pipelines.journey.key_search import newest_of_key
from mainstem.pipelines.journey.letter_search import letter_note
from mainstem.pipelines.journey.steps import Journey
from mainstem.pipelines.journey.view_steps import ViewStep, view_steps
from mainstem.pipelines.overview import Overview

_THREADS_MAX: Final = 4
_VIEWS_MAX: Final = 50


def journey_router(log: Log, views: ForwardingBackend) -> Routes:
    """``/topics/{topic}/records/{partition}/{offset}/journey`` and ``/views/{view}/journey``."""
    router, journeys = Routes("topics"), _Journeys(log, views)

    @router.declare(
        "GET",
        "/topics/{topic}/records/{partition}/{offset}/journey",
        "The journey of a record: which pipelines and views have it, what came of it, what it waits for",
        READ_TOPIC,
        success("The journey", "Journey"),
    )
    async def of_record(
        http: Request,
        topic: str,
        partition: Annotated[int, Path(ge=0, le=2**31 - 1)],
        offset: Annotated[int, Path(ge=0, le=2**63 - 2)],
        query: Annotated[JourneyQuery, Query()],
    ) -> Response:
        check_name(topic)
        grants = grants_of(http.scope)
        found = await journeys.of(TopicPartition(topic, partition), offset, grants, with_views=query.views)
        return json_response(found)

    @router.declare(
        "GET",
        "/views/{view}/journey",
        "Where the row of a key in a view came from: the journey of the newest record of the key that the view has",
        READ_VIEW,
        success("The journey; null when the view has no record of the key", "RowJourney"),
    )
    async def of_row(http: Request, view: str, query: Annotated[RowJourneyQuery, Query()]) -> Response:
        return json_response(await journeys.of_row(view, query.key, grants_of(http.scope)))

    return router


class _Journeys:
    """Puts the log's part and the views' part of a journey together."""

    def __init__(self, log: Log, views: ForwardingBackend) -> None:
        self._log = log
        self._views = views
        self._workers = Workers(_THREADS_MAX)
        self._finder = JourneyFinder(log, Overview(log))
        self._encoded = encoded_records(log)

    async def of(self, tp: TopicPartition, offset: int, grants: Grants, *, with_views: bool = True) -> dict[str, Any]:
        """The journey as a document. Raises UnknownTopicError."""
        sees = Sees(lambda name: grants.may("read", "topic", name), errors=grants.may_everything("read"))
        found = await self._workers.run(self._finder.find, tp, offset, sees)
        steps, note = await self._steps(found, grants) if with_views else ((), None)
        return {**found.to_json(), "views": [each.to_json() for each in steps], "views_note": note}

    async def of_row(self, view: str, key: str, grants: Grants) -> dict[str, Any]:
        """The same for the newest record of a key that a view has.

        Raises UnknownViewError, AuthorizationError, and UnavailableError or ViewStoppedError while it is not open.
        """
        statuses = {str(each["name"]): each for each in await self._views.statuses()}
        if view not in statuses:
            raise UnknownViewError(f"no view {view[:100]!r}; mainstem views list shows the views")
        topic, position = str(statuses[view]["topic"]), Position.parse(statuses[view]["position"])
        if not grants.may("read", "topic", topic):
            raise AuthorizationError(f"the journey of a row takes the scope read on topic:{topic}")
        _refuse_unless_open(statuses[view])
        record, note = await self._workers.run(self._newest, topic, key, position)
        journey = None
        if record is not None:
            journey = await self.of(TopicPartition(topic, record.partition), record.offset, grants)
        covers = Position.parse(statuses[view]["covers"])
        seen = covers.restrict(each for each in covers.topics if grants.may("read", "topic", each))
        about = {"view": view, "key": key, "topic": topic, "position": str(position), "covers": str(seen)}
        return {**about, "note": note or None, "journey": journey}

    def _newest(self, topic: str, key: str, until: Position) -> tuple[Record | None, str]:
        wanted = key_bytes(self._encoded.encoded_key(topic, key)) or b""
        found = newest_of_key(self._log, topic, wanted, until)
        return (found.records[-1] if found.records else None), found.skipped

    async def _steps(self, journey: Journey, grants: Grants) -> tuple[Sequence[ViewStep], str | None]:
        """The views on the way, and why some may be missing."""
        try:
            statuses = await self._views.statuses()
        except UnavailableError as error:
            return (), f"the views are not known: {error}"
        visible = [each for each in statuses if grants.may("read", "view", str(each["name"]))]
        steps = view_steps(journey.arrivals, visible)
        note = None if len(steps) <= _VIEWS_MAX else f"{len(steps) - _VIEWS_MAX} more views are not shown"
        record = journey.place.after
        return await asyncio.gather(*(self._completed(step, record, grants) for step in steps[:_VIEWS_MAX])), note

    async def _completed(self, step: ViewStep, record: Position, grants: Grants) -> ViewStep:
        """The step with the time by which the view had applied it, the reads that waited, and a dead letter of it."""
        waited = await self._views.waited(step.view, record)
        if waited is not None and waited["reads"]:
            readers = waited["readers"] if grants.may_everything("read") else []
            step = replace(step, waited={**waited, "readers": readers})
        if not step.is_applied or not step.until:
            return step
        if step.letters:
            may = grants.may("read", "topic", step.letters)
            work = partial(letter_note, self._log, step.letters, step.start, step.until, may_read=may)
            letter = await self._workers.run(work)
            step = replace(step, note="; ".join(filter(None, (letter, step.note))))
        applied = await self._views.applied(step.view, step.until)
        if applied is None:
            return step
        return replace(step, applied_ms=applied["time_ms"], is_before=applied["before"])


def _refuse_unless_open(status: Mapping[str, Any]) -> None:
    """Raises UnavailableError or ViewStoppedError for a view that is not open: its position is not known."""
    if status["built_from"] is not None:
        return
    view, state, detail = status["name"], status["state"], status["detail"]
    if state in ("stopped", "deleted"):
        raise ViewStoppedError(f"view {view} is {state}: {detail}")
    raise UnavailableError(f"view {view} is not ready yet ({state}{f': {detail}' if detail else ''})")
