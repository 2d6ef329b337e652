"""DescribeCluster (60), versions 0–2: the cluster's id and its one node.

Deliberate: there are no controllers to talk to (endpoint type 2): UNSUPPORTED_ENDPOINT_TYPE.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access import record_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_cluster as messages

_BROKERS: Final = 1


def handle(node: Node, call: Call) -> messages.DescribeClusterResponse:
    body: messages.DescribeClusterRequest = call.body
    if body.endpoint_type != _BROKERS:
        return messages.DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this is a broker; there are no controllers to describe",
            endpoint_type=body.endpoint_type,
            cluster_id="",
            brokers=[],
        )
    host, port = call.advertised
    return messages.DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        brokers=[messages.DescribeClusterBroker(broker_id=node.node_id, host=host, port=port)],
    )


API = Api(messages.DescribeClusterRequest, handle, record_guards.describe_cluster, describes_permissions=True)
