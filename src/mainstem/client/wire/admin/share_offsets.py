"""Start offsets of share groups by the Kafka protocol: read at the source, set at the target.

A share group has more state than its start offset: which records are acquired or acknowledged beyond it. Kafka's
protocol does not give that away, so these records are delivered again at the target.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import GROUP, ask_coordinator
from mainstem.errors import GroupNotEmptyError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from mainstem.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)


def share_start_offsets(client: WireClient, group: str) -> dict[TopicPartition, int]:
    """Where a share group begins in each partition that it has begun. Raises AuthorizationError, RemoteError."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])

    def codes(answer: DescribeShareGroupOffsetsResponse) -> list[int]:
        return [each.error_code for each in answer.groups]

    answer: DescribeShareGroupOffsetsResponse = ask_coordinator(client, request, group, GROUP, codes)
    for described in answer.groups:
        if described.error_code != ErrorCode.NONE:
            context = f"the start offsets of share group {group!r} cannot be read"
            raise error_of(described.error_code, context, described.error_message)
    return {
        TopicPartition(topic.topic_name, partition.partition_index): partition.start_offset
        for described in answer.groups
        for topic in described.topics
        for partition in topic.partitions
        if partition.error_code == ErrorCode.NONE and partition.start_offset >= 0
    }


def set_share_start_offsets(client: WireClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set where a share group without members begins. Raises GroupNotEmptyError when it has some, RemoteError."""
    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for tp, offset in offsets.items():
        item = AlterShareGroupOffsetsRequestPartition(partition_index=tp.partition, start_offset=offset)
        by_topic.setdefault(tp.topic, []).append(item)
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=each) for name, each in by_topic.items()]
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=topics)

    def codes(answer: AlterShareGroupOffsetsResponse) -> list[int]:
        return [answer.error_code]

    answer: AlterShareGroupOffsetsResponse = ask_coordinator(client, request, group, GROUP, codes)
    refused = [partition for topic in answer.responses for partition in topic.partitions if partition.error_code]
    found = [(answer.error_code, answer.error_message), *((each.error_code, each.error_message) for each in refused)]
    for code, message in found:
        if code == ErrorCode.NON_EMPTY_GROUP:
            raise GroupNotEmptyError(f"share group {group!r} has members: stop them first")
        if code != ErrorCode.NONE:
            raise error_of(code, f"the start offsets of share group {group!r} cannot be set", message)
