"""DeleteGroups (42), versions 0–2: removes groups without members, and their offsets; durable when answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.api import Api, Call
from mainstem.broker.failures import coordinator_code
from mainstem.broker.slices import Slices
from mainstem.errors import MainstemError
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from mainstem.protocol.schema import VersionRange

if TYPE_CHECKING:
    from mainstem.broker.node import Node


async def handle(node: Node, call: Call) -> DeleteGroupsResponse:
    """Serve one request; the top of the file says how."""
    body: DeleteGroupsRequest = call.body
    results = []
    for group_id in body.groups_names:
        try:
            code = await node.groups.delete_group(group_id)
        except MainstemError as error:
            code = coordinator_code(error)
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return DeleteGroupsResponse(results=results)


API = Api(ApiKey.DELETE_GROUPS, VersionRange(0, 2), handle, slices=Slices("groups_names", "results"))
