"""ListPartitionReassignments (46), version 0: none is ever under way on a single node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from mainstem.broker.node import Node


def handle(node: Node, call: Call) -> ListPartitionReassignmentsResponse:
    """Serve one request; the top of the file says how."""
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=[])


API = Api(ListPartitionReassignmentsRequest, handle, on_cluster(Operation.DESCRIBE))
