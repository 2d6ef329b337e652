"""The routes of server-sent events of topics. A wrong request gets a problem document before a stream begins."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from mainstem.client.log import Log
from mainstem.gateway.access.access_rules import READ_TOPIC
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.description import BOUNDED_EVENTS, EVENTS
from mainstem.gateway.http.queries import LastEventId, SearchRecordsQuery, StreamQuery
from mainstem.gateway.streams.event_stream import EventStream, Streams
from mainstem.gateway.streams.route_patterns import RoutePattern
from mainstem.gateway.streams.search_conditions import SearchConditions
from mainstem.gateway.streams.topic_frames import RecordFilter
from mainstem.gateway.streams.topic_search import SearchRange, TopicSearches
from mainstem.gateway.streams.topic_stream import TopicStreams
from mainstem.gateway.topics.topic_routes import check_name


def stream_router(log: Log, streams: Streams, topics: TopicStreams | None = None) -> Routes:
    """``/topics/{topic}/stream``."""
    router = Routes("topics")
    readers = topics or TopicStreams(log)

    @router.declare("GET", "/topics/{topic}/stream", "A topic's records as server-sent events", READ_TOPIC, EVENTS)
    async def stream_topic(
        topic: str, query: Annotated[StreamQuery, Query()], last_event_id: LastEventId = ""
    ) -> Response:
        check_name(topic)
        route = None if query.route is None else RoutePattern.parse(query.route)
        wanted = RecordFilter(None if query.key is None else query.key.encode(), None, route)
        start = await readers.start(topic, last_event_id or query.start, wanted, query.on_damaged)
        return EventStream(readers.events(start), streams)

    searches = TopicSearches(log)

    @router.declare(
        "GET",
        "/topics/{topic}/search",
        "Records that match, as server-sent events, within bounds",
        READ_TOPIC,
        BOUNDED_EVENTS,
    )
    async def search(topic: str, query: Annotated[SearchRecordsQuery, Query()]) -> Response:
        check_name(topic)
        conditions = SearchConditions.parse(query.text, query.where)
        what = SearchRange(topic, query.start, query.end, query.partition, query.limit, query.timeout, query.on_damaged)
        found = await searches.start(what, conditions, query.client)
        return EventStream(found.events(), streams, found.close, {"Mainstem-Searches-Running": str(searches.running)})

    return router
