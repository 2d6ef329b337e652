"""DeleteGroups (42), versions 0–2: removes groups without members, and their offsets; durable when answered."""

from __future__ import annotations

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import on_each
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.errors import MainstemError
from mainstem.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


async def handle(node: Node, call: Call) -> DeleteGroupsResponse:
    body: DeleteGroupsRequest = call.body
    results = []
    for group_id in body.groups_names:
        try:
            code = await node.groups.delete_group(group_id)
        except MainstemError as error:
            code = coordinator_code(error)
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return DeleteGroupsResponse(results=results)


API = Api(
    DeleteGroupsRequest,
    handle,
    on_each(ResourceType.GROUP, Operation.DELETE, "groups_names", "results"),
    changes_state=True,
    slices=Slices("groups_names", "results"),
)
