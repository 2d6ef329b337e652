"""WriteTxnMarkers (27), versions 1–2: ends a producer's transaction in the partitions that are named.

In a cluster, brokers send a coordinator's decision by this request. Here only administrators send it, to end a hanging
transaction (``kafka-transactions.sh abort``). Answered when the markers are durable. The transaction's coordinator is
not consulted. The markers of a mirror come from its source (POLICY_VIOLATION).
"""

from __future__ import annotations

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.transactions.markers import Marker
from mainstem.broker.transactions.state import ProducerIdAndEpoch
from mainstem.broker.transactions.steps import EPOCH_BUMP_FROM
from mainstem.errors import MainstemError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import write_txn_markers as messages


async def handle(node: Node, call: Call) -> messages.WriteTxnMarkersResponse:
    body: messages.WriteTxnMarkersRequest = call.body
    return messages.WriteTxnMarkersResponse(markers=[await _write(node, asked) for asked in body.markers])


async def _write(node: Node, asked: messages.WritableTxnMarker) -> messages.WritableTxnMarkerResult:
    marker = Marker(
        ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch),
        asked.coordinator_epoch,
        asked.transaction_result,
        raises_epoch=asked.transaction_version >= EPOCH_BUMP_FROM,
    )
    topics = []
    for topic in asked.topics:
        partitions = []
        for number in topic.partition_indexes:
            code = await _write_one(node, TopicPartition(topic.name, number), marker)
            partitions.append(messages.WritableTxnMarkerPartitionResult(partition_index=number, error_code=code))
        topics.append(messages.WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
    return messages.WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics)


async def _write_one(node: Node, partition: TopicPartition, marker: Marker) -> ErrorCode:
    try:
        if node.topics.existing(partition.topic).is_mirror:
            raise refusal(ErrorCode.POLICY_VIOLATION)
        log, next_offset = node.markers.append(partition, marker)
        await node.commit.durable(log, next_offset)
    except MainstemError as error:
        return error_code(error)
    return ErrorCode.NONE


API = Api(messages.WriteTxnMarkersRequest, handle, admin_guards.write_txn_markers)
