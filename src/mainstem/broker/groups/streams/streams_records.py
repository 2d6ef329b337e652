"""The records of streams groups in ``__consumer_offsets``, in the format of Apache Kafka 4.3.

A group is its epoch (17), its topology (23), its members (19), the epoch of its target (20), each member's target (21)
and current tasks (22). The hash of topics in (17) is of our own making; a coordinator only compares it with the one
that it made before.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.groups.streams.tasks import Tasks, TaskSet
from mainstem.protocol.codec import decode_message, encode_message
from mainstem.protocol.messages import streams_group_records as kafka
from mainstem.protocol.schema import Message

if TYPE_CHECKING:
    from mainstem.broker.groups.streams.streams_group import StreamsGroup, StreamsMember

_INT16: Final = struct.Struct(">h")
_VERSION: Final = 0
STANDBYS: Final = "num.standby.replicas"
"""The name under which a group's record keeps how many standby tasks its target has."""

KEYS: Final[dict[int, type[Message]]] = {
    17: kafka.StreamsGroupMetadataKey,
    19: kafka.StreamsGroupMemberMetadataKey,
    20: kafka.StreamsGroupTargetAssignmentMetadataKey,
    21: kafka.StreamsGroupTargetAssignmentMemberKey,
    22: kafka.StreamsGroupCurrentMemberAssignmentKey,
    23: kafka.StreamsGroupTopologyKey,
}
"""The key of each record type of a streams group."""
VALUES: Final[dict[int, type[Message]]] = {
    17: kafka.StreamsGroupMetadataValue,
    19: kafka.StreamsGroupMemberMetadataValue,
    20: kafka.StreamsGroupTargetAssignmentMetadataValue,
    21: kafka.StreamsGroupTargetAssignmentMemberValue,
    22: kafka.StreamsGroupCurrentMemberAssignmentValue,
    23: kafka.StreamsGroupTopologyValue,
}


def read_record(key: bytes, value: bytes | None) -> tuple[Message, Message | None]:
    """The key and the value of a record whose type is in ``KEYS``. Raises FrameError for one that is damaged."""
    kind: int = _INT16.unpack_from(key)[0]
    name = decode_message(KEYS[kind], 0, key, 2)
    return name, None if value is None else decode_message(VALUES[kind], _VERSION, value, 2)


def epoch_record(group: StreamsGroup) -> StateRecord:
    """The group's epoch, a hash of its topics, and what its target depends on besides."""
    value = kafka.StreamsGroupMetadataValue(
        epoch=group.epoch,
        metadata_hash=group.metadata_hash,
        validated_topology_epoch=group.validated_topology_epoch,
        last_assignment_configs=[kafka.LastAssignmentConfig(key=STANDBYS, value=str(group.standbys))],
    )
    return _record(kafka.StreamsGroupMetadataKey(group_id=group.group_id), value)


def topology_record(group_id: str, topology: kafka.StreamsGroupTopologyValue) -> StateRecord:
    """The program's topology."""
    return _record(kafka.StreamsGroupTopologyKey(group_id=group_id), topology)


def group_tombstones(group_id: str) -> list[StateRecord]:
    """The group is gone; its members are gone before."""
    keys: tuple[Message, ...] = (
        kafka.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        kafka.StreamsGroupTopologyKey(group_id=group_id),
        kafka.StreamsGroupMetadataKey(group_id=group_id),
    )
    return [_record(key, None) for key in keys]


def member_record(group_id: str, member: StreamsMember) -> StateRecord:
    """The record of a member's identity."""
    endpoint = member.endpoint
    value = kafka.StreamsGroupMemberMetadataValue(
        instance_id=None,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else kafka.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[kafka.KeyValue(key=key, value=text) for key, text in member.client_tags],
    )
    return _record(kafka.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[StateRecord]:
    """The member is gone, and with it all that it had and was to have."""
    keys: tuple[Message, ...] = (
        kafka.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        kafka.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        kafka.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
    )
    return [_record(key, None) for key in keys]


def target_epoch_record(group: StreamsGroup, time_ms: int) -> StateRecord:
    """The epoch of the target, and when it was made."""
    value = kafka.StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=group.assignment_epoch, assignment_timestamp=time_ms
    )
    return _record(kafka.StreamsGroupTargetAssignmentMetadataKey(group_id=group.group_id), value)


def target_record(group_id: str, member_id: str, target: TaskSet) -> StateRecord:
    """The record of a member's target."""
    active, standby, warmup = (
        [kafka.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]
        for tasks in target
    )
    value = kafka.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=active, standby_tasks=standby, warmup_tasks=warmup
    )
    return _record(kafka.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: StreamsMember) -> StateRecord:
    """The record of a member's tasks, and of those that it still has to give up."""
    assigned, pending = member.assigned, member.pending_revocation
    value = kafka.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active_tasks=_active(member, assigned.active),
        standby_tasks=_copies(assigned.standby),
        warmup_tasks=_copies(assigned.warmup),
        active_tasks_pending_revocation=_active(member, pending.active),
        standby_tasks_pending_revocation=_copies(pending.standby),
        warmup_tasks_pending_revocation=_copies(pending.warmup),
    )
    key = kafka.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, value)


def _active(member: StreamsMember, tasks: Tasks) -> list[kafka.CurrentTaskIds]:
    return [
        kafka.CurrentTaskIds(
            subtopology_id=each,
            partitions=sorted(tasks[each]),
            assignment_epochs=[
                member.assignment_epochs.get((each, number), member.member_epoch) for number in sorted(tasks[each])
            ],
        )
        for each in sorted(tasks)
    ]


def _copies(tasks: Tasks) -> list[kafka.CurrentTaskIds]:
    return [kafka.CurrentTaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _record(key: Message, value: Message | None) -> StateRecord:
    name = _INT16.pack(key.__api_key__) + encode_message(key, 0)
    return StateRecord(name, None if value is None else _INT16.pack(_VERSION) + encode_message(value, _VERSION))
