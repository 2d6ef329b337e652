"""The WriteTxnMarkers API (27): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    """WritableTxnMarkerTopic, a part of WriteTxnMarkersRequest."""

    name: str = string()
    partition_indexes: Sequence[int] = array("int32")


class WritableTxnMarker(Struct):
    """WritableTxnMarker, a part of WriteTxnMarkersRequest."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: Sequence[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", default=0)


class WriteTxnMarkersRequest(Message, key=27, versions="1-2", flexible="1+"):
    """WriteTxnMarkersRequest."""

    markers: Sequence[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    """WritableTxnMarkerPartitionResult, a part of WriteTxnMarkersResponse."""

    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    """WritableTxnMarkerTopicResult, a part of WriteTxnMarkersResponse."""

    name: str = string()
    partitions: Sequence[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    """WritableTxnMarkerResult, a part of WriteTxnMarkersResponse."""

    producer_id: int = int64()
    topics: Sequence[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Message, key=27, versions="1-2", flexible="1+"):
    """WriteTxnMarkersResponse."""

    markers: Sequence[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
