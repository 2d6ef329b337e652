"""SyncGroup (14), versions 0–5: a classic group's member asks for its assignment; the leader sends all assignments.

Answered when the assignment exists and is durable. From version 5 the request names the expected protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from mainstem.broker.access.guards import reads_group
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.groups.member_bytes import check_member_bytes
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_NAMES_PROTOCOL_FROM: Final = 5


def handle(node: Node, call: Call) -> Answer | Awaitable[Answer]:
    body: SyncGroupRequest = call.body
    if call.api_version >= _NAMES_PROTOCOL_FROM and None in (body.protocol_type, body.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    for each in body.assignments:
        check_member_bytes((each.assignment,), node.settings.group_member_bytes_max)
    return node.groups.membership.sync(call)


API = Api(SyncGroupRequest, handle, reads_group)
