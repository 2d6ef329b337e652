"""LeaveGroup (13), versions 0–5: members of a group leave; from version 3 several, also by instance id.

Members of a classic group leave themselves. Of a consumer group, whose members leave by their heartbeats, admins
remove members so.
"""

from __future__ import annotations

from collections.abc import Awaitable

from mainstem.broker.access.guards import reads_group
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.groups.consumer.consumer_group import ConsumerGroup
from mainstem.broker.node import Node
from mainstem.protocol.messages.leave_group import LeaveGroupRequest


def handle(node: Node, call: Call) -> Awaitable[Answer]:
    if isinstance(node.groups.group(call.body.group_id), ConsumerGroup):
        return node.groups.consumer.remove(call)
    return node.groups.classic.leave(call)


API = Api(LeaveGroupRequest, handle, reads_group)
