"""One request of each API of share groups, for the tests that go through all APIs."""

from __future__ import annotations

from uuid import UUID

from mainstem.protocol.apis import ApiKey
from mainstem.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_acknowledge,
    share_fetch,
)
from mainstem.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from mainstem.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

_TOPIC = UUID(int=7)

SHARE_REQUESTS = {
    ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatRequest(
        group_id="s", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: ShareGroupDescribeRequest(group_ids=["s"], include_authorized_operations=False),
    ApiKey.SHARE_FETCH: share_fetch.ShareFetchRequest(
        group_id="s",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=0,
        max_records=1,
        batch_size=1,
        topics=[
            share_fetch.FetchTopic(
                topic_id=_TOPIC,
                partitions=[share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])],
            )
        ],
        forgotten_topics_data=[],
    ),
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge.ShareAcknowledgeRequest(
        group_id="s",
        member_id="m",
        share_session_epoch=1,
        topics=[
            share_acknowledge.AcknowledgeTopic(
                topic_id=_TOPIC,
                partitions=[
                    share_acknowledge.AcknowledgePartition(
                        partition_index=0,
                        acknowledgement_batches=[
                            share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
                        ],
                    )
                ],
            )
        ],
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
        groups=[describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id="s", topics=None)]
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: alter_share_group_offsets.AlterShareGroupOffsetsRequest(
        group_id="s",
        topics=[
            alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name="t",
                partitions=[
                    alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
                ],
            )
        ],
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
        group_id="s",
        topics=[delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="t")],
    ),
}
