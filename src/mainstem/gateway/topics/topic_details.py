"""The routes that look into one topic: its partitions, its consumers, its configs. They work on Apache Kafka, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import Query
from starlette.responses import Response

from mainstem.client.admin.topic_consumers import TopicGroups
from mainstem.client.log import Log
from mainstem.gateway.access.access_rules import READ_ALL, READ_TOPIC
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.description import success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import NoQuery, PartitionsQuery
from mainstem.gateway.topics.topic_json import consuming_group_json, partition_state_json, topic_setting_json
from mainstem.gateway.topics.topic_routes import check_name
from mainstem.model import Position
from mainstem.pipelines.overview import Overview

_THREADS_MAX: Final = 4
_ENTRIES_MAX: Final = 10_000


def topic_details_router(log: Log, view_statuses: Callable[[], Awaitable[list[dict[str, Any]]]]) -> Routes:
    """``/topics/{topic}/partitions``, ``/consumers`` and ``/configs``. ``view_statuses``: the status of every view."""
    router, workers, pipelines = Routes("topics"), Workers(_THREADS_MAX), Overview(log)

    @router.declare(
        "GET",
        "/topics/{topic}/partitions",
        "The partitions of a topic: ends, size, leader, newest record",
        READ_TOPIC,
        success("The partitions", "Partitions"),
    )
    async def partitions(topic: str, query: Annotated[PartitionsQuery, Query()]) -> Response:
        check_name(topic)
        work = log.cluster_admin.partitions
        states, count = await workers.run(work, topic, after=query.after, limit=query.limit)
        last = states[-1].topic_partition.partition if states else query.after
        shown = [partition_state_json(each) for each in states]
        following = last if states and last < count - 1 else None
        return json_response({"topic": topic, "count": count, "partitions": shown, "next": following})

    @router.declare(
        "GET",
        "/topics/{topic}/consumers",
        "The groups, pipelines and views that read a topic, with their lag in it",
        READ_ALL,
        success("The consumers", "TopicConsumers"),
    )
    async def consumers(topic: str, _: Annotated[NoQuery, Query()]) -> Response:
        check_name(topic)
        found = await workers.run(log.cluster_admin.topic_groups, topic)
        end = await workers.run(log.end, topic)
        reading = [_reading(each, topic, end) for each in await workers.run(pipelines.latest)]
        statuses = await view_statuses()
        return json_response(
            {
                "topic": topic,
                **_groups(found),
                "pipelines": [each for each in reading if each is not None],
                "views": [
                    {name: each.get(name) for name in ("name", "kind", "state", "lag")}
                    for each in statuses
                    if each.get("topic") == topic
                ],
            }
        )

    @router.declare(
        "GET",
        "/topics/{topic}/configs",
        "The configs of a topic: value, source, default, description",
        READ_TOPIC,
        success("The configs", "TopicConfigs"),
    )
    async def configs(topic: str, _: Annotated[NoQuery, Query()]) -> Response:
        check_name(topic)
        settings = await workers.run(log.cluster_admin.topic_settings, topic)
        return json_response({"topic": topic, "configs": [topic_setting_json(each) for each in settings]})

    return router


def _groups(found: TopicGroups) -> dict[str, Any]:
    """The groups; after the first ``_ENTRIES_MAX`` partitions of all of them, without their partitions."""
    shown, entries = [], 0
    for group in found.groups:
        entries += len(group.progress)
        shown.append(consuming_group_json(group, with_partitions=entries <= _ENTRIES_MAX))
    return {"groups": shown, "complete": found.is_complete}


def _reading(pipeline: dict[str, Any], topic: str, end: Position) -> dict[str, Any] | None:
    """A pipeline with its lag in the topic; None if it does not read it. A table is read whole, so it has no lag."""
    about = {"name": pipeline["name"], "status": pipeline["status"]}
    if topic in pipeline["inputs"]:
        source = Position.parse(pipeline["source"]) if pipeline["source"] else Position()
        return {**about, "as": "stream", "lag": sum(max(0, last - source.get(tp, 0)) for tp, last in end.items())}
    if pipeline["tables"] and topic in Position.parse(pipeline["tables"]).topics:
        return {**about, "as": "table", "lag": None}
    return None
