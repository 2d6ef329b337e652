"""AddPartitionsToTxn (24), versions 0–5: adds partitions to a producer's transaction; durable when answered.

All of them are added or none: if one is unknown, the others get OPERATION_NOT_ATTEMPTED. From version 4 a request may
name several transactions; each may only ask whether its partitions belong to it (``verify_only``, KIP-890).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.node import Node
from mainstem.broker.slices import in_turns
from mainstem.broker.transactions.state import ProducerIdAndEpoch
from mainstem.errors import MainstemError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import add_partitions_to_txn as messages

_FENCED_FROM: Final = 2
_MANY_FROM: Final = 4
_ABORTABLE_FROM: Final = 5


async def handle(node: Node, call: Call) -> messages.AddPartitionsToTxnResponse:
    body: messages.AddPartitionsToTxnRequest = call.body
    if call.api_version >= _MANY_FROM:
        results = [
            messages.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=await _serve(node, call.api_version, each)
            )
            async for each in in_turns(body.transactions)
        ]
        return messages.AddPartitionsToTxnResponse(results_by_transaction=results)
    only = messages.AddPartitionsToTxnTransaction(
        transactional_id=body.v3_and_below_transactional_id,
        producer_id=body.v3_and_below_producer_id,
        producer_epoch=body.v3_and_below_producer_epoch,
        topics=body.v3_and_below_topics,
    )
    return messages.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _serve(node, call.api_version, only))


async def _serve(
    node: Node, version: int, asked: messages.AddPartitionsToTxnTransaction
) -> list[messages.AddPartitionsToTxnTopicResult]:
    # Each partition once: the work that must be done in one piece is then never larger than the log has partitions.
    partitions = {
        TopicPartition(topic.name, number): None
        async for topic in in_turns(asked.topics)
        async for number in in_turns(topic.partitions)
    }
    codes: Mapping[TopicPartition, ErrorCode] = await _unknown(node, partitions)
    if not codes:
        codes = await _ask(node, version, asked, partitions)
    return await _results(asked.topics, codes)


async def _unknown(node: Node, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Return the errors if any partition is unknown, or a mirror's; empty when all may be added."""
    codes = {}
    async for each in in_turns(partitions):
        topic = node.topics.get(each.topic)
        if topic is None or not 0 <= each.partition < len(topic.partitions):
            codes[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif topic.is_mirror:
            codes[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not codes:
        return {}
    return {each: codes.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) async for each in in_turns(partitions)}


async def _ask(
    node: Node, version: int, asked: messages.AddPartitionsToTxnTransaction, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    producer = ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch)
    try:
        if asked.verify_only:
            codes = node.transactions.verify(asked.transactional_id, producer, partitions)
            return codes if version >= _ABORTABLE_FROM else {each: _older(code) for each, code in codes.items()}
        await node.transactions.add(asked.transactional_id, producer, partitions, 2 if version >= _MANY_FROM else 0)
    except MainstemError as error:
        return dict.fromkeys(partitions, coordinator_code(error, knows_fenced=version >= _FENCED_FROM))
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _older(code: ErrorCode) -> ErrorCode:
    """Return the code for clients that do not know TRANSACTION_ABORTABLE."""
    return ErrorCode.INVALID_TXN_STATE if code is ErrorCode.TRANSACTION_ABORTABLE else code


async def _results(
    topics: Sequence[messages.AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode]
) -> list[messages.AddPartitionsToTxnTopicResult]:
    return [
        messages.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                messages.AddPartitionsToTxnPartitionResult(
                    partition_index=number, partition_error_code=codes[TopicPartition(topic.name, number)]
                )
                async for number in in_turns(topic.partitions)
            ],
        )
        async for topic in in_turns(topics)
    ]


API = Api(messages.AddPartitionsToTxnRequest, handle, admin_guards.add_partitions_to_txn)
