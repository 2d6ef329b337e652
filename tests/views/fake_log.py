"""A topic in memory that answers as a `WireClient` does: raw record batches, markers, gaps, lives and lost tails."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mainstem.client.wire.cluster.cluster import EARLIEST
from mainstem.client.wire.cluster.fetching import FetchedPartition
from mainstem.client.wire.cluster.metadata import PartitionMetadata, TopicMetadata
from mainstem.errors import LogUnavailableError, OffsetOutOfRangeError
from mainstem.model import TopicPartition
from mainstem.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from mainstem.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from mainstem.record.header import read_header
from mainstem.record.reader import AbortedTransaction

TOPIC = "t"
FIRST_LIFE = uuid.UUID(int=1)


@dataclass
class FakeLog:
    """One topic; its batches by partition. ``epoch_ends``: where each leader epoch ended."""

    partitions: dict[int, list[bytes]] = field(default_factory=lambda: {0: []})
    topic_id: uuid.UUID = FIRST_LIFE
    starts: dict[int, int] = field(default_factory=dict)
    epoch_ends: dict[int, int] = field(default_factory=dict)
    aborted: tuple[AbortedTransaction, ...] = ()
    exists: bool = True
    fetch_bytes: int = 1 << 20
    asked: list[list[TopicPartition]] = field(default_factory=list)
    fails: int = 0
    delete_retention_ms: int | None = 86_400_000
    name: str = TOPIC

    def end(self, partition: int) -> int:
        batches = self.partitions[partition]
        return read_header(batches[-1]).next_offset if batches else self.starts.get(partition, 0)

    def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        if not self.exists:
            return {}
        return {
            self.name: TopicMetadata(self.name, self.topic_id, {n: PartitionMetadata(1, 0) for n in self.partitions})
        }

    @property
    def topics(self) -> dict[str, TopicMetadata]:
        """What a client knows that it has just asked anew."""
        return self.metadata([self.name])

    def list_offsets(self, tps: Iterable[TopicPartition], at: int, *_: Any) -> dict[TopicPartition, int]:
        ends = {tp: self.end(tp.partition) for tp in tps}
        return {tp: self.starts.get(tp.partition, 0) for tp in ends} if at == EARLIEST else ends

    def fetch(self, offsets: Mapping[TopicPartition, int], **_: Any) -> dict[TopicPartition, FetchedPartition]:
        if self.fails:
            self.fails -= 1
            raise LogUnavailableError("away")
        self.asked.append(list(offsets))
        left = self.fetch_bytes
        answer = {}
        for tp, offset in offsets.items():
            answer[tp] = fetched = self._fetched(tp, offset, left)
            left -= len(fetched.records)
        return answer

    def request(self, body: Any, node: int | None = None) -> OffsetForLeaderEpochResponse | DescribeConfigsResponse:
        if isinstance(body, DescribeConfigsRequest):
            told = [] if self.delete_retention_ms is None else [("delete.retention.ms", f"{self.delete_retention_ms}")]
            configs = [
                DescribeConfigsResourceResult(name=name, value=value, read_only=False, is_sensitive=False, synonyms=[])
                for name, value in told
            ]
            return DescribeConfigsResponse(
                results=[
                    DescribeConfigsResult(
                        error_code=0, error_message=None, resource_type=2, resource_name=self.name, configs=configs
                    )
                ]
            )
        [topic] = body.topics
        [asked] = topic.partitions
        end = self.epoch_ends.get(asked.leader_epoch, self.end(asked.partition))
        result = EpochEndOffset(error_code=0, partition=asked.partition, end_offset=end)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic=self.name, partitions=[result])])

    def close(self) -> None:
        self.fails = 1 << 30

    def __enter__(self) -> FakeLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fetched(self, tp: TopicPartition, offset: int, left: int) -> FetchedPartition:
        start, end = self.starts.get(tp.partition, 0), self.end(tp.partition)
        if not start <= offset <= end:
            return FetchedPartition.failed(OffsetOutOfRangeError(f"{tp} has no offset {offset}"))
        records = b""
        for batch in self.partitions[tp.partition]:
            if read_header(batch).next_offset <= offset:
                continue
            if len(records) + len(batch) > left:
                break
            records += batch
        return FetchedPartition(memoryview(records), end, end, start, self.aborted)
