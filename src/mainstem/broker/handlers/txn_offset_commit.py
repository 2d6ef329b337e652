"""TxnOffsetCommit (28), versions 0–5: a transaction commits offsets of a group; they count when it commits.

Before version 5 the group has to be part of the transaction already (AddOffsetsToTxn); from 5 on it becomes part of it
here (KIP-890). From version 3 the member and its generation are checked (KIP-447). A partition that is unknown, or
metadata that is too long, is refused alone. Durable when answered.
A long request is written in pieces; the transaction makes all of them count at once.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import in_turn, on_topics
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.groups.group_types import CommitCheck
from mainstem.broker.groups.offsets.transactional_offsets import as_in_transaction
from mainstem.broker.groups.records import CommittedOffset
from mainstem.broker.node import Node
from mainstem.broker.slices import in_pieces, in_turns
from mainstem.broker.storage.topics import Topic
from mainstem.broker.transactions.state import ProducerIdAndEpoch
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import txn_offset_commit as messages

_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5
_NEWEST_COMMIT: Final = 10
"""The version of OffsetCommit whose rules for members and their epochs hold here, too."""


async def handle(node: Node, call: Call) -> messages.TxnOffsetCommitResponse:
    body: messages.TxnOffsetCommitRequest = call.body
    kept: dict[tuple[str, int], CommittedOffset] = {}
    topics = []
    async for asked in in_turns(body.topics):
        partitions = []
        topic = node.topics.get(asked.name)
        async for item in in_turns(asked.partitions):
            code = _check(node, topic, item)
            partitions.append(
                messages.TxnOffsetCommitResponsePartition(partition_index=item.partition_index, error_code=code)
            )
            if topic is not None and code is ErrorCode.NONE:
                kept[topic.name, item.partition_index] = _committed(node, topic, item)
        topics.append(messages.TxnOffsetCommitResponseTopic(name=asked.name, partitions=partitions))
    response = messages.TxnOffsetCommitResponse(topics=topics)
    if kept:
        try:
            for piece in in_pieces(list(kept.items())):
                refused = await _commit(node, call.api_version, body, dict(piece))
                if refused:
                    _refuse(response, ErrorCode.ILLEGAL_GENERATION, refused)
        except MainstemError as error:
            _refuse(response, coordinator_code(error, knows_fenced=False))  # in no version, as in Kafka
    return response


async def _commit(
    node: Node, version: int, body: messages.TxnOffsetCommitRequest, kept: dict[tuple[str, int], CommittedOffset]
) -> set[tuple[str, int]]:
    """Return the partitions that the member may not commit. Raises RemoteError, and the log's errors."""
    producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
    check = _check_member(node, body)
    partition = node.groups.log.partition(body.group_id).topic_partition
    admission = node.transactions.admit(body.transactional_id, producer, [partition], adds=version >= _ADDS_FROM)
    if admission.wait is not None:
        await node.commit.durable(*admission.wait)
        check = _check_member(node, body)
        admission = node.transactions.admit(body.transactional_id, producer, [partition], adds=False)
    code = admission.codes[partition]
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    if code:
        raise refusal(code)
    refused = {place for place, each in kept.items() if check.of(each.topic_id, place[1])}
    kept = {place: each for place, each in kept.items() if place not in refused}
    if kept:
        node.groups.ensure_group(body.group_id)
        await node.groups.transactional.commit(body.group_id, body.producer_id, body.producer_epoch, kept)
    return refused


def _check_member(node: Node, body: messages.TxnOffsetCommitRequest) -> CommitCheck:
    """Raise RemoteError when the member may not commit. A request without a member may, as before KIP-447."""
    code, of_partition = node.groups.log.refusal(body.group_id), None
    if not code and (body.generation_id >= 0 or body.member_id or body.group_instance_id is not None):
        checked = node.groups.check_commit(
            body.group_id, body.member_id, body.group_instance_id, body.generation_id, _NEWEST_COMMIT
        )
        code, of_partition = as_in_transaction(checked.code), checked.of_partition
    if code:
        raise refusal(code)
    return CommitCheck(code, of_partition)


def _check(node: Node, topic: Topic | None, item: messages.TxnOffsetCommitRequestPartition) -> ErrorCode:
    if topic is None or not 0 <= item.partition_index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len((item.committed_metadata or "").encode()) > node.settings.offset_metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _committed(node: Node, topic: Topic, item: messages.TxnOffsetCommitRequestPartition) -> CommittedOffset:
    return CommittedOffset(
        item.committed_offset,
        item.committed_leader_epoch,
        item.committed_metadata or "",
        node.clock.time_ms(),
        topic_id=topic.topic_id,
    )


def _refuse(
    response: messages.TxnOffsetCommitResponse, code: ErrorCode, only: Container[tuple[str, int]] | None = None
) -> None:
    """Set the code of the partitions without one: of all, or of these."""
    for topic in response.topics:
        for partition in topic.partitions:
            if only is None or (topic.name, partition.partition_index) in only:
                partition.error_code = partition.error_code or code


API = Api(
    messages.TxnOffsetCommitRequest,
    handle,
    in_turn(
        on_topics(
            Operation.READ,
            named=(ResourceType.TRANSACTIONAL_ID, Operation.WRITE, "transactional_id"),
        ),
        on_topics(
            Operation.READ,
            named=(ResourceType.GROUP, Operation.READ, "group_id"),
        ),
    ),
)
