"""The answer to a heartbeat: the group's status, its endpoints, and the member's tasks. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mainstem.broker.groups.streams.streams_group import StreamsGroup, StreamsMember
from mainstem.broker.groups.streams.tasks import Tasks
from mainstem.broker.groups.streams.topology import GroupStatus, sources_of
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import streams_group_heartbeat as messages

_RECOVERY_LAG: Final = 10_000
_OFFSETS_EVERY_MS: Final = 60_000


def answer_of(
    group: StreamsGroup,
    member: StreamsMember,
    request: messages.StreamsGroupHeartbeatRequest,
    heartbeat_interval_ms: int,
    failed: str,
) -> messages.StreamsGroupHeartbeatResponse:
    """The answer to a member, without its tasks. ``failed`` says why internal topics could not be made."""
    endpoints = None
    if request.endpoint_information_epoch != group.endpoints_epoch:
        endpoints = list(_endpoints(group)) or None
    return messages.StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        acceptable_recovery_lag=_RECOVERY_LAG,
        task_offset_interval_ms=_OFFSETS_EVERY_MS,
        status=list(_status(group, member, failed)),
        endpoint_information_epoch=group.endpoints_epoch,
        partitions_by_user_endpoint=endpoints,
    )


def with_tasks_of(
    answer: messages.StreamsGroupHeartbeatResponse, member: StreamsMember
) -> messages.StreamsGroupHeartbeatResponse:
    """The same answer with the member's tasks."""
    answer.active_tasks, answer.standby_tasks, answer.warmup_tasks = map(_ids, member.assigned)
    return answer


def _ids(tasks: Tasks) -> list[messages.TaskIds]:
    return [messages.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _status(group: StreamsGroup, member: StreamsMember, failed: str) -> Iterator[messages.Status]:
    topology = group.topology
    if topology is not None and member.topology_epoch < topology.epoch:
        yield _said(
            GroupStatus.STALE_TOPOLOGY,
            f"the member's topology is of epoch {member.topology_epoch}, and the group's of {topology.epoch}",
        )
    if group.configured.problem is not None:
        status, detail = group.configured.problem
        yield _said(status, f"{detail}; {failed}" if failed else detail)
    if group.shutdown_by is not None:
        yield _said(
            GroupStatus.SHUTDOWN_APPLICATION, f"member {group.shutdown_by} asked for the end of the application"
        )


def _said(status: GroupStatus, detail: str) -> messages.Status:
    return messages.Status(status_code=status, status_detail=detail)


def _endpoints(group: StreamsGroup) -> Iterator[messages.EndpointToPartitions]:
    """Which partitions each endpoint has the state of (Interactive Queries)."""
    for member in group.members.values():
        if member.endpoint is not None:
            yield messages.EndpointToPartitions(
                user_endpoint=messages.Endpoint(host=member.endpoint.host, port=member.endpoint.port),
                active_partitions=list(_partitions(group, member.assigned.active)),
                standby_partitions=list(_partitions(group, member.assigned.standby)),
            )


def _partitions(group: StreamsGroup, tasks: Tasks) -> Iterator[messages.TopicPartition]:
    for each in () if group.topology is None else group.topology.subtopologies:
        for name in sources_of(each):
            count = group.configured.partitions.get(name, 0)
            numbers = [number for number in sorted(tasks.get(each.subtopology_id, ())) if number < count]
            if numbers:
                yield messages.TopicPartition(topic=name, partitions=numbers)
