"""Fetch (1), versions 4–18: record batches as they lie, and a long poll that the arrival of data ends.

``max_bytes`` and ``partition_max_bytes`` bind except that the first batch of the first partition that has one is always
returned, so that a reader gets past any batch (KIP-74). A fetch into the middle of a batch returns the whole batch.
What is returned is durable: nothing past the high watermark.
Deliberate: no fetch sessions yet: every answer carries session id 0, with which clients send full requests (KIP-227),
and a request that names a session gets FETCH_SESSION_ID_NOT_FOUND. No followers: fields for them are ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple

from mainstem.broker.api import Answer, Api, Call
from mainstem.broker.failures import error_code, refusal
from mainstem.broker.topics import Topic
from mainstem.errors import MainstemError
from mainstem.log.partition_log import PartitionLog
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node

_BY_ID_FROM: Final = 13
_READ_COMMITTED: Final = 1


class _Read(NamedTuple):
    """One pass over what was asked for. ``may_wait`` is false when an answer is due whatever its size."""

    response: FetchResponse
    size_bytes: int
    may_wait: bool
    logs: list[PartitionLog]


def handle(node: Node, call: Call) -> Answer | Awaitable[Answer]:
    """Serve one request; the top of the file says how."""
    body: FetchRequest = call.body
    if body.session_id != 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    read = _read(node, call)
    if read.size_bytes >= body.min_bytes or not read.may_wait or body.max_wait_ms <= 0:
        return read.response
    return _wait(node, call, read)


async def _wait(node: Node, call: Call, read: _Read) -> Answer:
    body: FetchRequest = call.body
    deadline_s = node.clock.monotonic_s() + body.max_wait_ms / 1000
    # This runs in a later turn of the loop than the first pass: what became durable in between woke nobody.
    read = _read(node, call)
    while read.may_wait and read.size_bytes < body.min_bytes:
        left_s = deadline_s - node.clock.monotonic_s()
        if left_s <= 0 or not await node.fetches.wait(read.logs, left_s):
            break
        read = _read(node, call)
    return read.response


def _read(node: Node, call: Call) -> _Read:
    body: FetchRequest = call.body
    left_bytes = max(0, min(body.max_bytes, node.fetch_bytes_max))
    size_bytes = 0
    has_failed = False
    logs: list[PartitionLog] = []
    topics = []
    for asked in body.topics:
        topic, unknown = _find(node, call, asked)
        answers = []
        for item in asked.partitions:
            if topic is None:
                answers.append(_refused(item.partition, unknown))
                has_failed = True
                continue
            try:
                log = topic.partition(item.partition)
                answer, got_bytes = _read_partition(log, body, item, left_bytes, is_first=size_bytes == 0)
            except MainstemError as error:
                answers.append(_refused(item.partition, error_code(error)))
                has_failed = True
                continue
            answers.append(answer)
            logs.append(log)
            size_bytes += got_bytes
            left_bytes = max(0, left_bytes - got_bytes)
        topics.append(FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=answers))
    # An error is news, and so is that nothing was asked for: both are told at once.
    return _Read(FetchResponse(responses=topics), size_bytes, bool(logs) and not has_failed, logs)


def _find(node: Node, call: Call, asked: FetchTopic) -> tuple[Topic | None, ErrorCode]:
    if call.api_version >= _BY_ID_FROM:
        return node.topics.by_id(asked.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return node.topics.get(asked.topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _read_partition(
    log: PartitionLog, body: FetchRequest, item: FetchPartition, left_bytes: int, *, is_first: bool
) -> tuple[PartitionData, int]:
    """What one partition has to give, and its size in bytes. Raises RemoteError and what ``PartitionLog.read``
    raises.
    """
    if 0 <= item.current_leader_epoch < log.leader_epoch:
        raise refusal(ErrorCode.FENCED_LEADER_EPOCH)
    if item.current_leader_epoch > log.leader_epoch:
        raise refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
    max_bytes = min(left_bytes, max(0, item.partition_max_bytes))
    result = log.read(item.fetch_offset, max_bytes, minimum_one=is_first)
    answer = PartitionData(
        partition_index=item.partition,
        error_code=ErrorCode.NONE,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=() if body.isolation_level == _READ_COMMITTED else None,
        records=result.buffers,
    )
    return answer, result.size_bytes


def _refused(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=None, records=()
    )


API = Api(ApiKey.FETCH, Versions(4, 18), handle)
