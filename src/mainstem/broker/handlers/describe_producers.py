"""DescribeProducers (61), version 0: a partition's producers, and where open transactions began (KIP-664)."""

from __future__ import annotations

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_topics
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_producers as messages


def handle(node: Node, call: Call) -> messages.DescribeProducersResponse:
    body: messages.DescribeProducersRequest = call.body
    topics = [
        messages.TopicResponse(
            name=asked.name, partitions=[_describe(node, asked.name, number) for number in asked.partition_indexes]
        )
        for asked in body.topics
    ]
    return messages.DescribeProducersResponse(topics=topics)


def _describe(node: Node, name: str, number: int) -> messages.PartitionResponse:
    try:
        producers = node.topics.partition(name, number).producers()
    except MainstemError as error:
        return messages.PartitionResponse(
            partition_index=number, error_code=error_code(error), error_message=str(error), active_producers=[]
        )
    states = [
        messages.ProducerState(
            producer_id=each.producer_id,
            producer_epoch=each.epoch,
            last_sequence=each.last_sequence,
            last_timestamp=each.last_timestamp_ms,
            coordinator_epoch=each.coordinator_epoch,
            current_txn_start_offset=each.transaction_first_offset,
        )
        for each in producers
    ]
    return messages.PartitionResponse(partition_index=number, error_code=ErrorCode.NONE, active_producers=states)


API = Api(
    messages.DescribeProducersRequest,
    handle,
    on_topics(Operation.READ),
    slices=Slices("topics", "topics", partitions="partition_indexes"),
)
