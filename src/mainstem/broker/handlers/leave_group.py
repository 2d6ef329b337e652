"""LeaveGroup (13), versions 0–5: members of a group leave; from version 3 several, also by instance id.

Members of the classic protocol leave themselves. Members of the consumer protocol leave by their heartbeats; admins
remove them so.
"""

from __future__ import annotations

from collections.abc import Awaitable

from mainstem.broker.access.guards import reads_group
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.node import Node
from mainstem.protocol.messages.leave_group import LeaveGroupRequest


def handle(node: Node, call: Call) -> Awaitable[Answer]:
    return node.groups.membership.leave(call)


API = Api(LeaveGroupRequest, handle, reads_group)
