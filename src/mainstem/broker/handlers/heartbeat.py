"""Heartbeat (12), versions 0–4: keeps a classic group's member alive, and tells it whether to rejoin."""

from __future__ import annotations

from mainstem.broker.access.guards import reads_group
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(node: Node, call: Call) -> HeartbeatResponse:
    body: HeartbeatRequest = call.body
    code = node.groups.membership.heartbeat(body.group_id, body.member_id, body.group_instance_id, body.generation_id)
    return HeartbeatResponse(error_code=code)


API = Api(HeartbeatRequest, handle, reads_group)
