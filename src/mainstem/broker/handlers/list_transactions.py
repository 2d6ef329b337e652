"""ListTransactions (66), versions 0–2: the transactional ids, as they are durably, by state, producer id, how long they
have been ongoing (version 1) and the pattern of their names (version 2).

The pattern, of RE2, has to match a whole name. A state that does not exist is named in the answer and matches nothing.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.groups.consumer.topic_patterns import TopicPatterns
from mainstem.broker.node import Node
from mainstem.broker.transactions.state import IDLE, TransactionState
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from mainstem.protocol.messages.list_transactions import TransactionState as ListedTransaction

_STATES: Final = frozenset(state.text for state in TransactionState)


async def handle(node: Node, call: Call) -> ListTransactionsResponse:
    body: ListTransactionsRequest = call.body
    try:
        matches = TopicPatterns().compile(body.transactional_id_pattern) if body.transactional_id_pattern else None
        transactions = await node.transactions.all()
    except MainstemError as error:
        return _refused(coordinator_code(error))
    started_before_ms = node.clock.time_ms() - body.duration_filter
    listed = [
        ListedTransaction(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            transaction_state=each.state.text,
        )
        for each in transactions
        if (not body.state_filters or each.state.text in body.state_filters)
        and (not body.producer_id_filters or each.producer_id in body.producer_id_filters)
        and (body.duration_filter < 0 or (each.state not in IDLE and each.start_ms < started_before_ms))
        and (matches is None or matches(each.transactional_id))
    ]
    unknown = [text for text in body.state_filters if text not in _STATES]
    return ListTransactionsResponse(error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=listed)


def _refused(code: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code, unknown_state_filters=[], transaction_states=[])


API = Api(ListTransactionsRequest, handle, admin_guards.list_transactions)
