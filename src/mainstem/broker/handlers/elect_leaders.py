"""ElectLeaders (43), versions 0–2: this node leads every partition, so ELECTION_NOT_NEEDED is the answer for each.

Asked for all partitions, it answers with no topic at all: as in Kafka, those that need no election are left out then.
Deliberate: no election opens a partition that could not be opened: ELIGIBLE_LEADERS_NOT_AVAILABLE, until the node
is started again.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.errors import MainstemError, PartitionOfflineError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import elect_leaders as messages

_ELECTION_TYPES: Final = (0, 1)  # preferred, unclean


def handle(node: Node, call: Call) -> messages.ElectLeadersResponse:
    body: messages.ElectLeadersRequest = call.body
    is_known = body.election_type in _ELECTION_TYPES
    results = [
        messages.ReplicaElectionResult(
            topic=asked.topic,
            partition_result=[_elect(node, asked.topic, number, body.election_type) for number in asked.partitions],
        )
        for asked in body.topic_partitions or ()
    ]
    code = ErrorCode.NONE if is_known else ErrorCode.INVALID_REQUEST
    return messages.ElectLeadersResponse(error_code=code, replica_election_results=results)


def _elect(node: Node, topic: str, number: int, election_type: int) -> messages.PartitionResult:
    try:
        if election_type not in _ELECTION_TYPES:
            raise refusal(ErrorCode.INVALID_REQUEST, f"there is no election type {election_type}")
        node.topics.existing(topic).partition(number)
        raise refusal(ErrorCode.ELECTION_NOT_NEEDED)
    except PartitionOfflineError as error:
        code: ErrorCode = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        return messages.PartitionResult(partition_id=number, error_code=code, error_message=str(error))
    except MainstemError as error:
        return messages.PartitionResult(partition_id=number, error_code=error_code(error), error_message=str(error))


API = Api(messages.ElectLeadersRequest, handle, admin_guards.elect_leaders)
