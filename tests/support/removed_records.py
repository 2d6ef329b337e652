"""Records removed from the start of a partition, as a delete-records request does it."""

from __future__ import annotations

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    """Remove the records before an offset; the partition's leader is the log's only broker."""
    part = DeleteRecordsPartition(partition_index=partition, offset=before)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=30_000)
    with WireClient(bootstrap) as client:
        answer = client.request(request)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
