"""MirrorAppend (32002), version 0, Mainstem's own: appends record batches of another log at the offsets that they have.

Only topics with ``mainstem.mirror.of`` take them (POLICY_VIOLATION), and only from users with ClusterAction, as a
follower of Kafka needs it. Batches keep their bytes: offsets, leader epochs, producers, sequences, transaction markers.
Only the checksum and the order are checked. Partitions fail one by one; every answer has the log end, from which the
mirror goes on. Answered when all of it is on disk.

Producer ids in the batches are never given out here: a producer of this node must not be taken for one of the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.errors import MainstemError
from mainstem.log.partition.mirrored_batches import CheckedBatch, check_mirrored, mirrored_steps
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import mirror_append as messages

_QUICK_BYTES: Final = 128 * 1024
_REFUSALS_AT_ONCE: Final = 100


async def handle(node: Node, call: Call) -> messages.MirrorAppendResponse:
    body: messages.MirrorAppendRequest = call.body
    topics = []
    waiting: list[tuple[PartitionLog, messages.MirroredPartition, messages.MirroredPartitionResult]] = []
    for topic in body.topics:
        results = []
        for item in topic.partitions:
            result = messages.MirroredPartitionResult(index=item.index)
            results.append(result)
            if len(results) % _REFUSALS_AT_ONCE == 0:
                await asyncio.sleep(0)  # what is refused waits for nothing
            log = await _append(node, topic.name, item, result)
            if log is not None:
                waiting.append((log, item, result))
        topics.append(messages.MirroredTopicResult(name=topic.name, partitions=results))
    for log, item, result in waiting:
        await _finish(node, log, item, result)
    return messages.MirrorAppendResponse(topics=topics)


async def _append(
    node: Node, name: str, item: messages.MirroredPartition, result: messages.MirroredPartitionResult
) -> PartitionLog | None:
    """Append to one partition; its log if the rest of the work is still to do."""
    log = None
    try:
        _require_mirror(node, name, item.index)
        batches = await _checked(item.records)
        log = _require_mirror(node, name, item.index)  # it may have been promoted meanwhile
        if batches:
            node.keep_producer_ids_above(max(batch.header.producer_id for batch in batches))
            node.log.directory.raise_leader_epoch(max(batch.header.leader_epoch for batch in batches))
        await _append_steps(node, name, log, batches, item)
    except MainstemError as error:
        result.error_code, result.error_message = error_code(error), str(error)
        result.log_end_offset = -1 if log is None else log.log_end_offset
    if log is None:
        return None
    if not result.error_code:
        node.meters.appended_bytes[name] += len(item.records or b"")
    return log


async def _append_steps(
    node: Node,
    name: str,
    log: PartitionLog,
    batches: Sequence[CheckedBatch],
    item: messages.MirroredPartition,
) -> None:
    """Append step by step: others are served in between. Raises MainstemError: then the first ones may be appended."""
    end = item.expected_end_offset
    for step, fill_to in mirrored_steps(batches, end, item.fill_to_offset):
        if _require_mirror(node, name, item.index) is not log:
            raise refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} was deleted")
        try:
            log.append_mirrored(step, end, fill_to)
        finally:
            if log.log_end_offset > log.high_watermark:
                node.commit.appended(log)
        end = log.log_end_offset
        await asyncio.sleep(0)


def _require_mirror(node: Node, name: str, number: int) -> PartitionLog:
    topic = node.topics.existing(name)
    if not topic.is_mirror:
        text = f"topic {name!r} is not a mirror here: it was promoted, or made by others; others may write it"
        raise refusal(ErrorCode.POLICY_VIOLATION, text)
    return topic.partition(number)


async def _checked(records: object) -> list[CheckedBatch]:
    data = records if isinstance(records, memoryview) else memoryview(b"")
    if len(data) <= _QUICK_BYTES:
        return check_mirrored(data)
    return await asyncio.get_running_loop().run_in_executor(None, check_mirrored, data)


async def _finish(
    node: Node, log: PartitionLog, item: messages.MirroredPartition, result: messages.MirroredPartitionResult
) -> None:
    """Wait until the batches are durable, and let the log begin where the source does."""
    try:
        end = log.log_end_offset
        await node.commit.durable(log, end)
        result.log_end_offset = end
        if _require_mirror(node, log.topic_partition.topic, item.index) is not log:  # else clients may have written it
            raise refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {log.topic_partition.topic!r} was deleted")
        start = min(item.start_offset, log.high_watermark)
        if start > log.log_start_offset:
            log.delete_records(start)
            node.fetches.wake(log)
    except MainstemError as error:
        result.error_code, result.error_message = error_code(error), str(error)


API = Api(messages.MirrorAppendRequest, handle, on_cluster(Operation.CLUSTER_ACTION))
