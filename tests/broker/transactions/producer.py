"""A transactional producer that speaks raw frames: each method is one request, in a version of the test's choice."""

from __future__ import annotations

from typing import Any

from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from mainstem.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from mainstem.protocol.messages.end_txn import EndTxnRequest
from mainstem.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest
from mainstem.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mainstem.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from mainstem.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from mainstem.record.header import iter_headers
from mainstem.record.reader import read_records
from mainstem.record.writer import ProducerStamp
from tests.broker.harness import Client, produce_request

V1 = 1
"""Transaction version 1: partitions and groups are added explicitly, the epoch stays (librdkafka)."""
V2 = 2
"""Transaction version 2 (KIP-890): they are added implicitly, each end raises the epoch (Java)."""


class Producer:
    """One instance of the producer ``transactional_id``."""

    def __init__(self, client: Client, transactional_id: str = "tx", version: int = V2) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.version = version
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(self, version: int = 5, timeout_ms: int = 60_000, **more: Any) -> Any:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, **more
        )
        answer = await self.client.request(request, version)
        if answer.error_code == 0:
            self.become(answer.producer_id, answer.producer_epoch)
        return answer

    async def ready(self, **more: Any) -> Producer:
        assert (await self.init(**more)).error_code == 0
        return self

    def become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self.sequences.clear()

    def stamp(self, topic: str, partition: int, records: int) -> ProducerStamp:
        sequence = self.sequences.get((topic, partition), 0)
        self.sequences[topic, partition] = sequence + records
        return ProducerStamp(self.producer_id, self.epoch, sequence, is_transactional=True)

    def produce_request(self, topic: str, *values: bytes, partition: int = 0) -> Any:
        stamp = self.stamp(topic, partition, len(values))
        request = produce_request(topic, *values, partition=partition, producer=stamp)
        request.transactional_id = self.transactional_id
        return request

    async def produce(self, topic: str, *values: bytes, partition: int = 0, version: int | None = None) -> Any:
        """Append one batch; the answer for the partition."""
        if version is None:
            version = 12 if self.version == V2 else 9
        answer = await self.client.request(self.produce_request(topic, *values, partition=partition), version)
        return answer.responses[0].partition_responses[0]

    async def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Append in the transaction, whatever that takes in this transaction version."""
        if self.version == V1:
            assert await self.add(topic, partition) == ErrorCode.NONE
        answer = await self.produce(topic, *values, partition=partition)
        assert answer.error_code == ErrorCode.NONE, answer

    async def add(self, topic: str, partition: int = 0, version: int = 3) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        answer = await self.client.request(request, version)
        code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return code

    async def verify(self, topic: str, partition: int = 0, version: int = 5) -> int:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        answer = await self.client.request(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        result = answer.results_by_transaction[0].topic_results[0].results_by_partition[0]
        code: int = result.partition_error_code
        return code

    def end_request(self, *, commit: bool = True) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )

    async def end(self, *, commit: bool = True, version: int | None = None) -> Any:
        if version is None:
            version = 5 if self.version == V2 else 3
        answer = await self.client.request(self.end_request(commit=commit), version)
        if version >= 5 and answer.error_code == 0:
            self.become(answer.producer_id, answer.producer_epoch)
        return answer

    async def commit(self) -> None:
        assert (await self.end()).error_code == ErrorCode.NONE

    async def abort(self) -> None:
        assert (await self.end(commit=False)).error_code == ErrorCode.NONE

    async def add_group(self, group: str) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        code: int = (await self.client.request(request, 3)).error_code
        return code

    async def offset(
        self, group: str, topic: str, offset: int, *, partition: int = 0, version: int | None = None, **more: Any
    ) -> int:
        """TxnOffsetCommit; the code for the partition."""
        item = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=more.pop("metadata", "note")
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[item])],
            **more,
        )
        if version is None:
            version = 5 if self.version == V2 else 3
        answer = await self.client.request(request, version)
        code: int = answer.topics[0].partitions[0].error_code
        return code


async def visible(client: Client, topic: str, *, committed: bool = True, partition: int = 0) -> list[bytes | None]:
    """What a reader of ``topic`` is given: with ``committed`` as a consumer with read_committed leaves it."""
    asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )
    data = (await client.request(request, 11)).responses[0].partitions[0]
    assert data.error_code == 0
    aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    skipped: set[int] = set()
    values: list[bytes | None] = []
    records = memoryview(bytes(data.records))
    for file_position, header in iter_headers(records):
        while aborted and aborted[0][0] <= header.last_offset:
            skipped.add(aborted.pop(0)[1])
        if header.is_control:
            skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            batch = records[file_position : file_position + header.size_bytes]
            values += [record.value for record in read_records(batch)]
    return values


async def end_offset(client: Client, topic: str, *, committed: bool) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[ListOffsetsTopic(name=topic, partitions=[partition])],
    )
    offset: int = (await client.request(request, 6)).topics[0].partitions[0].offset
    return offset


async def committed_offset(
    client: Client, group: str, topic: str, *, stable: bool = False, partition: int = 0
) -> tuple[int, int]:
    """A group's committed offset and the error code that came with it."""
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])], require_stable=stable
    )
    answer = (await client.request(request, 9)).groups[0].topics[0].partitions[0]
    return answer.committed_offset, answer.error_code
