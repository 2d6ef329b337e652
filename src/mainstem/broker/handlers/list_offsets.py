"""ListOffsets (2), versions 1–11: the offset at the start, at the end, of a time, or of the greatest timestamp.

The end is the high watermark: what a reader may see. ``isolation_level`` 1 asks for the last stable offset instead, and
finds no record at or past it.
For topics with ``remote.storage.enable``: where the local part starts (-4), the last offset that the backup's store
holds (-5), and the first that it does not hold (-6). For others -4 is the start, and -5 and -6 are unknown (-1).
A batch whose records must be read to find a time is read in a thread, a few at a time. In such a topic a search may
have to load a piece of an old segment, so a few partitions are searched at a time.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_topics
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices, in_turns
from mainstem.errors import MainstemError, UnknownTopicError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.segments.timestamps import TimestampOffset, UnreadBatch
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import list_offsets as messages
from mainstem.record.constants import NO_LEADER_EPOCH

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_SEARCHES_AT_ONCE: Final = 4
"""So many loads of old segments are under way at a time."""
# The first version whose clients may ask for it.
_FROM_VERSION: Final = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING_UPLOAD: 11}


async def handle(node: Node, call: Call) -> messages.ListOffsetsResponse:
    body: messages.ListOffsetsRequest = call.body
    topics = [
        messages.ListOffsetsTopicResponse(name=asked.name, partitions=await _find_all(node, call, body, asked))
        for asked in body.topics
        if asked.partitions
    ]
    return messages.ListOffsetsResponse(topics=topics)


async def _find_all(
    node: Node, call: Call, body: messages.ListOffsetsRequest, asked: messages.ListOffsetsTopic
) -> list[messages.ListOffsetsPartitionResponse]:
    """The answers for a topic's partitions. Searches that may wait for the backup's store run beside each other."""
    if not _may_wait(node, asked):
        return [await _find(node, call, body, asked.name, item) async for item in in_turns(asked.partitions)]
    gate = asyncio.Semaphore(_SEARCHES_AT_ONCE)

    async def find(item: messages.ListOffsetsPartition) -> messages.ListOffsetsPartitionResponse:
        async with gate:
            return await _find(node, call, body, asked.name, item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(find(item)) for item in asked.partitions]
    return [task.result() for task in tasks]


def _may_wait(node: Node, asked: messages.ListOffsetsTopic) -> bool:
    topic = node.topics.get(asked.name)
    is_by_time = any(item.timestamp >= 0 or item.timestamp == _MAX_TIMESTAMP for item in asked.partitions)
    return topic is not None and is_by_time and topic.configs.get("remote.storage.enable") == "true"


async def _find(
    node: Node, call: Call, body: messages.ListOffsetsRequest, name: str, item: messages.ListOffsetsPartition
) -> messages.ListOffsetsPartitionResponse:
    answer = messages.ListOffsetsPartitionResponse(partition_index=item.partition_index, error_code=ErrorCode.NONE)
    try:
        _check_timestamp(call.api_version, item.timestamp)
        log = _partition(node, name, item.partition_index)
        _check_epoch(log, item)
        end = log.last_stable_offset if body.isolation_level else log.high_watermark
        if item.timestamp == _LATEST:
            answer.offset, answer.leader_epoch = end, log.leader_epoch
        elif item.timestamp == _EARLIEST:
            answer.offset, answer.leader_epoch = log.log_start_offset, log.log_start_epoch
        else:
            answer.offset, answer.timestamp, answer.leader_epoch = await _look_up(node, log, item.timestamp, end)
    except MainstemError as error:
        answer.error_code = error_code(error)
    return answer


def _partition(node: Node, name: str, number: int) -> PartitionLog:
    """Raises UnknownTopicError (also for a name that no topic can have, as in Kafka), PartitionOfflineError."""
    topic = node.topics.get(name)
    if topic is None:
        raise UnknownTopicError(f"there is no topic {name[:300]!r}")
    return topic.partition(number)


def _check_timestamp(version: int, timestamp: int) -> None:
    if timestamp < _EARLIEST_PENDING_UPLOAD or version < _FROM_VERSION.get(timestamp, 0):
        raise refusal(ErrorCode.UNSUPPORTED_VERSION)


def _check_epoch(log: PartitionLog, item: messages.ListOffsetsPartition) -> None:
    if NO_LEADER_EPOCH != item.current_leader_epoch < log.leader_epoch:
        raise refusal(ErrorCode.FENCED_LEADER_EPOCH)
    if item.current_leader_epoch > log.leader_epoch:
        raise refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)


async def _look_up(node: Node, log: PartitionLog, timestamp: int, end: int) -> tuple[int, int, int]:
    """Return offset, timestamp and leader epoch of what is searched for below ``end``, each -1 where there is none."""
    if timestamp == _EARLIEST_LOCAL:
        local_start = log.local_start_offset
        is_all = local_start == log.log_start_offset
        return local_start, -1, log.log_start_epoch if is_all else log.epoch_of(local_start)
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return _tiered(log, timestamp)
    found = await _search(node, log, timestamp)
    return found if found is not None and found.offset < end else (-1, -1, -1)


def _tiered(log: PartitionLog, timestamp: int) -> tuple[int, int, int]:
    """Return the last offset that the store holds, or the first that it does not hold."""
    if not log.config.remote_storage_enable:
        return -1, -1, -1
    end = log.stored_end_offset
    if timestamp == _EARLIEST_PENDING_UPLOAD:
        return end, -1, log.epoch_of(end)
    return (end - 1, -1, log.epoch_of(end - 1)) if end > log.log_start_offset else (-1, -1, -1)


async def _search(node: Node, log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """Return the first record with the greatest timestamp, or with at least this one."""
    if timestamp == _MAX_TIMESTAMP:
        batch = await node.remote.reading(log, log.batch_of_max_timestamp)
        return await _read(node, batch) if batch is not None else None
    found = await node.remote.reading(log, lambda: log.begin_timestamp_search(timestamp))
    while isinstance(found, UnreadBatch):
        go_on = partial(log.begin_timestamp_search, timestamp, found.next_offset)
        found = await _read(node, found) or await node.remote.reading(log, go_on)
    return found


async def _read(node: Node, batch: UnreadBatch) -> TimestampOffset | None:
    if batch.is_quick():
        return batch.search()
    async with node.timestamp_searches:
        return await asyncio.to_thread(batch.search)


API = Api(
    messages.ListOffsetsRequest,
    handle,
    on_topics(Operation.DESCRIBE),
    slices=Slices("topics", "topics", partitions="partitions"),
)
