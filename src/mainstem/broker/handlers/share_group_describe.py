"""ShareGroupDescribe (77), version 1: the members of share groups, and what each reads.

An unknown group, or one of another type, is GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from mainstem.broker.access import group_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.node import Node
from mainstem.broker.share.group import ASSIGNOR_NAME, ShareMember
from mainstem.broker.slices import Slices
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import share_group_describe as messages


def handle(node: Node, call: Call) -> messages.ShareGroupDescribeResponse:
    body: messages.ShareGroupDescribeRequest = call.body
    return messages.ShareGroupDescribeResponse(groups=[_describe(node, group_id) for group_id in body.group_ids])


def _describe(node: Node, group_id: str) -> messages.DescribedGroup:
    try:
        group = node.share.coordinator.find(group_id)
    except MainstemError as error:
        return messages.DescribedGroup(
            error_code=coordinator_code(error),
            error_message=str(error),
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=[],
        )
    return messages.DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR_NAME,
        members=[_member(node, member) for member in group.members.values()],
    )


def _member(node: Node, member: ShareMember) -> messages.Member:
    assigned = [
        messages.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(numbers))
        for topic_id, numbers in member.assigned.items()
        if (topic := node.topics.by_id(topic_id)) is not None
    ]
    return messages.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=messages.Assignment(topic_partitions=assigned),
    )


API = Api(
    messages.ShareGroupDescribeRequest,
    handle,
    group_guards.on_described_groups("group_ids"),
    describes_permissions=True,
    slices=Slices("group_ids", "groups", once=True),
)
