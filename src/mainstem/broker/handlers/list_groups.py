"""ListGroups (16), versions 0–5: all groups, or only those in some states (from 4) or of some types (from 5)."""

from __future__ import annotations

from mainstem.broker.access import group_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(node: Node, call: Call) -> ListGroupsResponse:
    body: ListGroupsRequest = call.body
    states = {state.lower() for state in body.states_filter}
    types = {type_.lower() for type_ in body.types_filter}
    groups = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state_name,
            group_type=group.group_type.value,
        )
        for group in node.groups.groups()
        if (not states or group.state_name.lower() in states) and (not types or group.group_type.value in types)
    ]
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)


API = Api(ListGroupsRequest, handle, group_guards.list_groups)
