"""DescribeGroups (15), versions 0–6: a classic group's state, members and assignments.

A group that does not exist, or is of another type, is shown as Dead; from version 6 it is GROUP_ID_NOT_FOUND as well.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access import group_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.groups.classic.classic_group import ClassicGroup, GroupState
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_groups as messages

_NOT_FOUND_FROM: Final = 6


def handle(node: Node, call: Call) -> messages.DescribeGroupsResponse:
    body: messages.DescribeGroupsRequest = call.body
    return messages.DescribeGroupsResponse(
        groups=[_describe(node, call.api_version, group_id) for group_id in body.groups]
    )


def _describe(node: Node, version: int, group_id: str) -> messages.DescribedGroup:
    group = node.groups.group(group_id)
    if not isinstance(group, ClassicGroup):
        what = "does not exist" if group is None else "is not a classic group"
        missing = version >= _NOT_FOUND_FROM
        return messages.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"group {group_id!r} {what}" if missing else None,
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=[],
        )
    return messages.DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if group.state is GroupState.STABLE else "",
        members=_members(group),
    )


def _members(group: ClassicGroup) -> list[messages.DescribedGroupMember]:
    is_stable = group.state is GroupState.STABLE
    return [
        messages.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata_for(group.protocol) if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]


API = Api(
    messages.DescribeGroupsRequest,
    handle,
    group_guards.on_described_groups("groups"),
    describes_permissions=True,
    slices=Slices("groups", "groups", once=True),
)
