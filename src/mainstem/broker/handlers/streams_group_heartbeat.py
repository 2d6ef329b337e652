"""StreamsGroupHeartbeat (88), version 0: a thread of a Kafka Streams program joins, lives, gives tasks up and leaves.

Answered when what it changed is durable. The sender needs Read on the group and Describe on the topology's topics;
internal topics that are missing are made in its name, which needs Create. Deliberate: they are there when the answer
comes, the first target comes without a delay, and a program whose group has no members may bring another topology.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from mainstem.broker.access import group_guards
from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.authorizer import Access
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.groups.member_bytes import check_member_bytes
from mainstem.broker.groups.streams.topology import texts_of
from mainstem.broker.node import Node
from mainstem.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


def handle(node: Node, call: Call) -> Awaitable[Answer]:
    check_member_bytes(_texts(call.body), node.settings.group_member_bytes_max)
    access = Access(node.authorizer, call.principal, call.client_host[1:])

    def may_create(topic: str) -> bool:
        return access.allows_on_cluster(Operation.CREATE) or access.allows(Operation.CREATE, ResourceType.TOPIC, topic)

    return node.groups.streams.heartbeat(call, may_create)


def _texts(request: StreamsGroupHeartbeatRequest) -> Iterator[str | None]:
    """The texts that the node keeps of a member and of its topology."""
    yield from (request.process_id, request.rack_id)
    for tag in request.client_tags or ():
        yield from (tag.key, tag.value)
    if request.user_endpoint is not None:
        yield request.user_endpoint.host
    if request.topology is not None:
        yield from texts_of(request.topology)


API = Api(StreamsGroupHeartbeatRequest, handle, group_guards.on_member_of_streams_group)
