"""ConsumerGroupHeartbeat (68), versions 0–1: a consumer group's member joins, lives, gives partitions up and leaves.

Answered when what it changed is durable. From version 1 members have ids of their own and may subscribe with a regular
expression (RE2's syntax), which finds those topics that its sender may describe. A member that joins a classic group
makes a consumer group of it. Deliberate: a classic group is converted also where one of the usual assignors sends data
with its assignments, which Kafka refuses with GROUP_ID_NOT_FOUND. A member that joins again with a new instance id
keeps its target assignment; in Kafka it has none until the next one.
"""

from __future__ import annotations

from collections.abc import Awaitable

from mainstem.broker.access import group_guards
from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.authorizer import Access
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.groups.member_bytes import check_member_bytes
from mainstem.broker.node import Node
from mainstem.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def handle(node: Node, call: Call) -> Awaitable[Answer]:
    check_member_bytes(call.body.subscribed_topic_names or (), node.settings.group_member_bytes_max)
    access = Access(node.authorizer, call.principal, call.client_host[1:])

    def may_see(topic: str) -> bool:
        return access.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic)

    return node.groups.consumer.heartbeat(call, may_see)


API = Api(ConsumerGroupHeartbeatRequest, handle, group_guards.on_member_of_group)
