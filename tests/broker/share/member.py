"""A member of a share group that speaks raw requests, for the tests of this directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mainstem.protocol.messages import share_acknowledge, share_fetch
from mainstem.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from mainstem.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from mainstem.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mainstem.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mainstem.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mainstem.record.reader import iter_records
from tests.broker.harness import Client

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GAP = 0


class Member:
    """One member with its session. ``held`` is what its last fetch acquired: (offset, delivery count) by partition."""

    def __init__(self, client: Client, member_id: str = "m1", group: str | None = "g") -> None:
        self.client = client
        self.member_id = member_id
        self.group = group
        self.epoch = 0
        self.session_epoch = 0
        self.topic_id = UUID(int=0)
        self.values: list[bytes | None] = []

    async def heartbeat(self, topics: Sequence[str] | None = None, epoch: int | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            subscribed_topic_names=topics,
        )
        answer = await self.client.request(request, 1)
        if not answer.error_code:
            self.epoch = answer.member_epoch
        return answer

    async def join(self, *topics: str) -> Any:
        answer = await self.heartbeat(topics or ("t",), epoch=0)
        assert answer.error_code == 0, answer
        self.topic_id = await topic_id(self.client, (topics or ("t",))[0])
        return answer

    async def leave(self) -> Any:
        return await self.heartbeat(epoch=-1)

    async def fetch(
        self,
        *acknowledged: tuple[int, int, Sequence[int]],
        partitions: Sequence[int] = (0,),
        epoch: int | None = None,
        version: int = 2,
        **options: Any,
    ) -> Any:
        """Fetch, and acknowledge in partition 0 along with it: the whole answer."""
        options = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, **options}
        options.setdefault("batch_size", options["max_records"])
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in acknowledged
        ]
        items = [
            share_fetch.FetchPartition(
                partition_index=number, acknowledgement_batches=batches if number == partitions[0] else ()
            )
            for number in partitions
        ]
        request = share_fetch.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            topics=[share_fetch.FetchTopic(topic_id=self.topic_id, partitions=items)],
            forgotten_topics_data=(),
            **options,
        )
        answer = await self.client.request(request, version)
        if answer.error_code == 0:
            self.session_epoch = 0 if request.share_session_epoch == -1 else request.share_session_epoch + 1
        return answer

    async def acquire(
        self, *acknowledged: tuple[int, int, Sequence[int]], **options: Any
    ) -> list[tuple[int, int, int]]:
        """Fetch from partition 0: what was acquired, as (first, last, delivery count); its values are in ``values``."""
        answer = await self.fetch(*acknowledged, **options)
        assert answer.error_code == 0, answer
        data = partition_of(answer)
        if data is None:
            return []
        assert (data.error_code, data.acknowledge_error_code) == (0, 0), data
        acquired = [(run.first_offset, run.last_offset, run.delivery_count) for run in data.acquired_records]
        offsets = {offset for first, last, _ in acquired for offset in range(first, last + 1)}
        records = iter_records(bytes(data.records or b"")) if data.records else ()
        self.values = [record.value for record in records if record.offset in offsets]
        return acquired

    async def acknowledge(
        self, first: int, last: int, *types: int, partition: int = 0, epoch: int | None = None, renews: bool = False
    ) -> tuple[int, int]:
        """The error codes of the answer and of the partition in it."""
        batch = share_acknowledge.AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=list(types)
        )
        item = share_acknowledge.AcknowledgePartition(partition_index=partition, acknowledgement_batches=[batch])
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            is_renew_ack=renews,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=[item])],
        )
        answer = await self.client.request(request, 2)
        if answer.error_code:
            return answer.error_code, 0
        self.session_epoch = 0 if request.share_session_epoch == -1 else request.share_session_epoch + 1
        return 0, answer.responses[0].partitions[0].error_code


def partition_of(answer: Any, number: int = 0) -> Any:
    """What an answer to a fetch says of a partition; None when it says nothing."""
    found = [item for topic in answer.responses for item in topic.partitions if item.partition_index == number]
    return found[0] if found else None


async def topic_id(client: Client, name: str) -> UUID:
    answer = await client.request(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    found: UUID = answer.topics[0].topic_id
    return found


async def set_config(client: Client, name: str, value: str, group: str = "g") -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await client.request(request, 1)
    assert answer.responses[0].error_code == 0, answer


async def begin_early(client: Client, group: str = "g") -> None:
    """Let the group begin at the beginning of its topics."""
    await set_config(client, "share.auto.offset.reset", "earliest", group)


async def offsets(client: Client, group: str = "g") -> dict[tuple[str, int], tuple[int, int]]:
    """Start offset and lag of each partition that the group shares."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )
    answer = (await client.request(request, 1)).groups[0]
    assert answer.error_code == 0, answer
    return {
        (topic.topic_name, item.partition_index): (item.start_offset, item.lag)
        for topic in answer.topics
        for item in topic.partitions
    }


async def alter_offset(client: Client, offset: int, *, topic: str = "t", group: str = "g", partition: int = 0) -> Any:
    item = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[item])]
    return await client.request(AlterShareGroupOffsetsRequest(group_id=group, topics=topics), 0)
