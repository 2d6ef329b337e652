"""JoinGroup (11), versions 0–9: a member of the classic protocol joins; answered when the next generation begins.

From version 4 a member without an id is given one and asked to join again with it (KIP-394); static members from 5.
"""

from __future__ import annotations

from collections.abc import Awaitable

from mainstem.broker.access.guards import reads_group
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.groups.member_bytes import check_member_bytes
from mainstem.broker.node import Node
from mainstem.protocol.messages.join_group import JoinGroupRequest


def handle(node: Node, call: Call) -> Awaitable[Answer]:
    parts = (part for each in call.body.protocols for part in (each.name, each.metadata))
    check_member_bytes(parts, node.settings.group_member_bytes_max)
    return node.groups.membership.join(call)


API = Api(JoinGroupRequest, handle, reads_group)
