"""ListConfigResources (74), versions 0–1: the resources with configs: the topics, the groups with configs of their
own, the subscriptions to client metrics, and this node. Version 0 lists the subscriptions alone.

Deliberate: loggers have no configs here: none are listed.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.configs.config_entries import ConfigResourceType
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import list_config_resources as messages

_TYPES_FROM: Final = 1


def handle(node: Node, call: Call) -> messages.ListConfigResourcesResponse:
    body: messages.ListConfigResourcesRequest = call.body
    if call.api_version < _TYPES_FROM:
        wanted = {int(ConfigResourceType.CLIENT_METRICS)}
    else:
        wanted = set(body.resource_types) or {int(kind) for kind in ConfigResourceType}
    if not wanted <= {int(kind) for kind in ConfigResourceType}:
        return messages.ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    names: dict[ConfigResourceType, list[str]] = {
        ConfigResourceType.CLIENT_METRICS: sorted(node.telemetry.configs.names()),
        ConfigResourceType.GROUP: sorted(node.group_configs.group_ids()),
        ConfigResourceType.BROKER: [str(node.node_id)],
        ConfigResourceType.TOPIC: sorted(topic.name for topic in node.topics.all()),
    }
    resources = [
        messages.ConfigResource(resource_name=name, resource_type=kind)
        for kind, listed in names.items()
        if kind in wanted
        for name in listed
    ]
    return messages.ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=resources)


API = Api(messages.ListConfigResourcesRequest, handle, on_cluster(Operation.DESCRIBE_CONFIGS))
