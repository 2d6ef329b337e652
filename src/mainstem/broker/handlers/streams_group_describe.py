"""StreamsGroupDescribe (89), version 0: streams groups with their topology, members, and current and target tasks.

An unknown group, or one of another type, is GROUP_ID_NOT_FOUND. A member's current tasks include those that it was
asked to give up, until it has done so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainstem.broker.access import group_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.groups.streams.streams_group import StreamsGroup, StreamsMember
from mainstem.broker.groups.streams.tasks import Tasks, TaskSet
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import streams_group_describe as messages


def handle(node: Node, call: Call) -> messages.StreamsGroupDescribeResponse:
    body: messages.StreamsGroupDescribeRequest = call.body
    return messages.StreamsGroupDescribeResponse(groups=[_describe(node, group_id) for group_id in body.group_ids])


def _describe(node: Node, group_id: str) -> messages.DescribedGroup:
    group = node.groups.group(group_id)
    if not isinstance(group, StreamsGroup):
        what = "does not exist" if group is None else "is not a streams group"
        return messages.DescribedGroup(
            error_code=node.groups.log.refusal(group_id) or ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"group {group_id!r} {what}",
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            members=(),
        )
    return messages.DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> messages.Topology | None:
    if group.topology is None:
        return None
    counts = group.configured.partitions
    subtopologies = [
        messages.Subtopology(
            subtopology_id=each.subtopology_id,
            source_topics=each.source_topics,
            repartition_sink_topics=each.repartition_sink_topics,
            state_changelog_topics=_infos(each.state_changelog_topics, counts),
            repartition_source_topics=_infos(each.repartition_source_topics, counts),
        )
        for each in group.topology.subtopologies
    ]
    return messages.Topology(epoch=group.topology.epoch, subtopologies=subtopologies)


def _infos(topics: Sequence[Any], counts: Any) -> list[messages.TopicInfo]:
    return [
        messages.TopicInfo(
            name=topic.name,
            partitions=counts.get(topic.name, topic.partitions),
            replication_factor=topic.replication_factor,
            topic_configs=[messages.KeyValue(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in topics
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> messages.Member:
    endpoint = member.endpoint
    return messages.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else messages.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[messages.KeyValue(key=key, value=text) for key, text in member.client_tags],
        task_offsets=(),
        task_end_offsets=(),
        assignment=_assignment(member.assigned.plus(member.pending_revocation)),
        target_assignment=_assignment(group.targets.get(member.member_id, TaskSet())),
        is_classic=False,
    )


def _assignment(tasks: TaskSet) -> messages.Assignment:
    active, standby, warmup = map(_ids, tasks)
    return messages.Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def _ids(tasks: Tasks) -> list[messages.TaskIds]:
    return [messages.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


API = Api(
    messages.StreamsGroupDescribeRequest,
    handle,
    group_guards.on_described_groups("group_ids"),
    describes_permissions=True,
    slices=Slices("group_ids", "groups", once=True),
)
