"""The records of share groups: of their members in ``__consumer_offsets``, of their state in ``__share_group_state``.

A record's key is the key struct after two bytes that say its type (``__api_key__``); its value is the value struct
after two bytes that say its version. Types are counted in each of the two topics on its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid_

# ---- __consumer_offsets


class ShareGroupMemberMetadataKey(Message, key=10, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Message, key=10, versions="0", flexible="0+"):
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array("string")


class ShareGroupMetadataKey(Message, key=11, versions="0"):
    group_id: str = string()


class ShareGroupMetadataValue(Message, key=11, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupTargetAssignmentMetadataKey(Message, key=12, versions="0"):
    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Message, key=12, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, tag=0)


class ShareGroupTargetAssignmentMemberKey(Message, key=13, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    topic_id: uuid.UUID = uuid_()
    partitions: Sequence[int] = array("int32")


class ShareGroupTargetAssignmentMemberValue(Message, key=13, versions="0", flexible="0+"):
    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


class ShareGroupCurrentMemberAssignmentKey(Message, key=14, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


class ShareGroupStatePartitionMetadataKey(Message, key=15, versions="0"):
    group_id: str = string()


class TopicPartitionsInfo(Struct):
    topic_id: uuid.UUID = uuid_()
    topic_name: str = string()
    partitions: Sequence[int] = array("int32")


class TopicInfo(Struct):
    topic_id: uuid.UUID = uuid_()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message, key=15, versions="0", flexible="0+"):
    initializing_topics: Sequence[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: Sequence[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: Sequence[TopicInfo] = array(TopicInfo)


# ---- __share_group_state


class ShareSnapshotKey(Message, key=0, versions="0"):
    group_id: str = string()
    topic_id: uuid.UUID = uuid_()
    partition: int = int32()


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Message, key=0, versions="0", flexible="0+"):
    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: Sequence[StateBatch] = array(StateBatch)


class ShareUpdateKey(Message, key=1, versions="0"):
    group_id: str = string()
    topic_id: uuid.UUID = uuid_()
    partition: int = int32()


class ShareUpdateValue(Message, key=1, versions="0", flexible="0+"):
    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    state_batches: Sequence[StateBatch] = array(StateBatch)
