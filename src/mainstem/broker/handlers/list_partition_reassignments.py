"""ListPartitionReassignments (46), version 0: none is ever under way on a single node."""

from __future__ import annotations

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import list_partition_reassignments as messages


def handle(node: Node, call: Call) -> messages.ListPartitionReassignmentsResponse:
    return messages.ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])


API = Api(messages.ListPartitionReassignmentsRequest, handle, on_cluster(Operation.DESCRIBE))
