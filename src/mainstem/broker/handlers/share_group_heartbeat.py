"""ShareGroupHeartbeat (76), version 1: a member of a share group joins (epoch 0), stays, or leaves (epoch -1).

Members make their ids themselves. The assignment comes with an answer when it is new to the member or was asked for.
Deliberate: assignments are made at once, without the interval that Kafka 4.3 lets pass between two of them.
"""

from __future__ import annotations

from collections.abc import Awaitable

from mainstem.broker.access import group_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.groups.member_bytes import check_member_bytes
from mainstem.broker.node import Node
from mainstem.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


def handle(node: Node, call: Call) -> Awaitable[Answer]:
    check_member_bytes(call.body.subscribed_topic_names or (), node.settings.group_member_bytes_max)
    return node.share.coordinator.heartbeat(call)


API = Api(ShareGroupHeartbeatRequest, handle, group_guards.on_member_of_group)
