"""ConsumerGroupDescribe (69), versions 0–1: consumer groups with their members, current and target assignments.

An unknown group, or one of another type, is GROUP_ID_NOT_FOUND. A member's current assignment includes partitions that
it was asked to give up, until it has done so.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access import group_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.groups.consumer.assignors import Assignment as Partitions
from mainstem.broker.groups.consumer.consumer_group import ConsumerGroup, ConsumerMember, assignment_of
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import consumer_group_describe as messages

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def handle(node: Node, call: Call) -> messages.ConsumerGroupDescribeResponse:
    body: messages.ConsumerGroupDescribeRequest = call.body
    return messages.ConsumerGroupDescribeResponse(groups=[_describe(node, group_id) for group_id in body.group_ids])


def _describe(node: Node, group_id: str) -> messages.DescribedGroup:
    group = node.groups.group(group_id)
    if not isinstance(group, ConsumerGroup):
        what = "does not exist" if group is None else "is not a consumer group"
        return messages.DescribedGroup(
            error_code=node.groups.log.refusal(group_id) or ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"group {group_id!r} {what}",
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=(),
        )
    return messages.DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(node.groups.consumer.default_assignor(group_id)),
        members=[_member(node, group, member) for member in group.members.values()],
    )


def _member(node: Node, group: ConsumerGroup, member: ConsumerMember) -> messages.Member:
    return messages.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.pattern or "",
        assignment=_assignment(node, assignment_of((topic_id, [number]) for topic_id, number in member.owned())),
        target_assignment=_assignment(node, group.targets.get(member.member_id, {})),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(node: Node, partitions: Partitions) -> messages.Assignment:
    """Return the assignment by name and by id; deleted topics are left out, as in Kafka."""
    topics = ((node.topics.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    return messages.Assignment(
        topic_partitions=[
            messages.TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(numbers))
            for topic, numbers in topics
            if topic is not None
        ]
    )


API = Api(
    messages.ConsumerGroupDescribeRequest,
    handle,
    group_guards.on_described_groups("group_ids"),
    describes_permissions=True,
    slices=Slices("group_ids", "groups", once=True),
)
