"""ShareAcknowledge (79), versions 1–2: a member acknowledges records that it holds; durable when answered.

The request belongs to the member's share session and carries its epoch; epoch -1 ends the session and releases the
records that the member still holds. Version 2 can renew locks (type 4), in a request that declares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import in_turn, on_topics, reads_group
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.share.acknowledging import Outcome, acknowledge, session_key, until_durable
from mainstem.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SharedPartition
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import share_acknowledge as messages


async def handle(node: Node, call: Call) -> Answer:
    body: messages.ShareAcknowledgeRequest = call.body
    try:
        key = session_key(body.group_id, body.member_id)
        if body.share_session_epoch == INITIAL_EPOCH:
            raise refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a session must begin with ShareFetch")
        session = node.share.sessions.use(key, body.share_session_epoch)
    except MainstemError as error:
        return messages.ShareAcknowledgeResponse(
            error_code=error_code(error), error_message=str(error), responses=[], node_endpoints=[]
        )
    outcomes = acknowledge(node.share, key, body.topics, may_renew=body.is_renew_ack)
    if body.share_session_epoch == FINAL_EPOCH:
        node.share.sessions.end(session)
    else:
        session.advance()
    await until_durable(node.share, key, outcomes)
    return messages.ShareAcknowledgeResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=node.share.partitions.lock_duration_ms(key.group_id),
        responses=_responses(outcomes),
        node_endpoints=[],
    )


def _responses(outcomes: Mapping[SharedPartition, Outcome]) -> list[messages.ShareAcknowledgeTopicResponse]:
    by_topic: dict[UUID, list[messages.PartitionData]] = {}
    for (topic_id, number), outcome in outcomes.items():
        data = messages.PartitionData(
            partition_index=number,
            error_code=outcome.code,
            error_message=outcome.message,
            current_leader=messages.LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        )
        by_topic.setdefault(topic_id, []).append(data)
    return [
        messages.ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=items)
        for topic_id, items in by_topic.items()
    ]


API = Api(messages.ShareAcknowledgeRequest, handle, in_turn(reads_group, on_topics(Operation.READ, "responses")))
