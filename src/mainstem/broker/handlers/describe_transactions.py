"""DescribeTransactions (65), version 0: the durable state of each transactional id (KIP-664)."""

from __future__ import annotations

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_transactions as messages


async def handle(node: Node, call: Call) -> messages.DescribeTransactionsResponse:
    body: messages.DescribeTransactionsRequest = call.body
    states = [await _describe(node, transactional_id) for transactional_id in body.transactional_ids]
    return messages.DescribeTransactionsResponse(transaction_states=states)


async def _describe(node: Node, transactional_id: str) -> messages.TransactionState:
    try:
        transaction = await node.transactions.describe(transactional_id)
    except MainstemError as error:
        return messages.TransactionState(
            error_code=coordinator_code(error),
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    topics: dict[str, list[int]] = {}
    for each in sorted(transaction.partitions):
        topics.setdefault(each.topic, []).append(each.partition)
    return messages.TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=transaction.state.text,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[messages.TopicData(topic=topic, partitions=numbers) for topic, numbers in topics.items()],
    )


API = Api(
    messages.DescribeTransactionsRequest,
    handle,
    admin_guards.describe_transactions,
    slices=Slices("transactional_ids", "transaction_states", once=True),
)
