"""DescribeConfigs (32), versions 1–4: every config of a topic, a group, client metrics or the node, with default,
type, source and doc. A group or a subscription to client metrics need not be there.

Deliberate: configs of loggers are not kept: INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from mainstem.broker.access import admin_guards
from mainstem.broker.access.acls import Operation
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.configs.config_entries import (
    ConfigEntry,
    ConfigResourceType,
    broker_entries,
    client_metrics_entries,
    group_entries,
    topic_entries,
)
from mainstem.broker.error_codes import refusal, reported_in
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_configs as messages


def handle(node: Node, call: Call) -> messages.DescribeConfigsResponse:
    body: messages.DescribeConfigsRequest = call.body
    results = []
    for asked in body.resources:
        result = messages.DescribeConfigsResult(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=(),
        )
        with reported_in(result):
            wanted = set(asked.configuration_keys or ()) or None  # none named: all, as in Kafka
            result.configs = [
                _described(entry, body)
                for entry in _entries(node, asked, wanted)
                if wanted is None or entry.name in wanted
            ]
        results.append(result)
    return messages.DescribeConfigsResponse(results=results)


def _entries(
    node: Node, asked: messages.DescribeConfigsResource, wanted: Container[str] | None
) -> Iterable[ConfigEntry]:
    """The resource's configs: all that are ``wanted``, and perhaps others."""
    if asked.resource_type == ConfigResourceType.TOPIC:  # clients ask for one config of each of many topics
        return topic_entries(node.configs, node.topics.find(asked.resource_name).configs, wanted)
    if asked.resource_type == ConfigResourceType.GROUP:
        return group_entries(node.configs, node.group_configs, asked.resource_name)
    if asked.resource_type == ConfigResourceType.CLIENT_METRICS:
        return client_metrics_entries(node.telemetry.configs.overrides(asked.resource_name))
    if asked.resource_type == ConfigResourceType.BROKER:
        node.configs.overrides(asked.resource_name)  # refuses another node's
        return broker_entries(node.configs, asked.resource_name)
    raise refusal(ErrorCode.INVALID_REQUEST, f"resources of type {asked.resource_type} have no configs here")


def _described(entry: ConfigEntry, body: messages.DescribeConfigsRequest) -> messages.DescribeConfigsResourceResult:
    synonyms = entry.synonyms if body.include_synonyms else ()
    return messages.DescribeConfigsResourceResult(
        name=entry.name,
        value=None if entry.is_sensitive else entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            messages.DescribeConfigsSynonym(
                name=synonym.name, value=None if entry.is_sensitive else synonym.value, source=synonym.source
            )
            for synonym in synonyms
        ],
        config_type=entry.type,
        documentation=entry.doc if body.include_documentation else None,
    )


API = Api(
    messages.DescribeConfigsRequest,
    handle,
    admin_guards.on_configs(Operation.DESCRIBE_CONFIGS, "results"),
    slices=Slices("resources", "results", once=True),
)
