"""Produce (0), versions 3–13: record batches, appended as they came.

acks=all (-1) and acks=1 are answered when the records are on the disk; acks=0 is never answered, and an error then
closes the connection. In every case no reader sees a record before it is on the disk. So acks=1 means the same as all,
as on an Apache Kafka of one node: who was answered can read what he wrote, and finds it before the end.
Versions 0–2 are listed, as Apache Kafka 4 does for the sake of librdkafka, and refused: their record formats are gone.
Records of a transaction are written when the transaction's log names their partition durably: from version 12 on they
name it themselves, before it has to be named already (``transactions.producing`` says more).
Deliberate: ``timeout_ms`` is not needed, as there is no replica to wait for. Internal topics take no records from
clients (INVALID_TOPIC_EXCEPTION).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mainstem.broker.api import Answer, Api, Call
from mainstem.broker.failures import error_code
from mainstem.broker.topics import Topic
from mainstem.broker.transactions.producing import ADDS_FROM, admit_records, transactional_producer
from mainstem.broker.transactions.state import Producer
from mainstem.errors import FrameError, InvalidRecordError, InvalidTimestampError, MainstemError
from mainstem.log.partition_log import PartitionLog
from mainstem.model import TopicPartition
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node

_ALL: Final = -1
_BY_ID_FROM: Final = 13


class _Waiting:
    """A request that is answered: which partitions wait for the disk, and the answer that is sent when none does."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.left = 1  # one for the request itself, until all of it is appended
        self.response: ProduceResponse | None = None

    def add(self, node: Node, log: PartitionLog, next_offset: int, answer: PartitionProduceResponse) -> None:
        self.left += 1

        def done(error: MainstemError | None) -> None:
            if error is not None:
                answer.error_code, answer.error_message, answer.base_offset = error_code(error), str(error), -1
            self.one_is_done()

        node.commit.when_durable(log, next_offset, done)

    def one_is_done(self) -> None:
        self.left -= 1
        if self.left == 0 and not self.future.done():
            self.future.set_result(self.response)


def handle(node: Node, call: Call) -> Answer | asyncio.Future[Answer]:
    """Serve one request; the top of the file says how."""
    producers = _transactional_producers(node, call)
    if not producers:
        return _append_all(node, call, {})
    body: ProduceRequest = call.body
    admission = admit_records(
        node.transactions, body.transactional_id, producers, call.api_version, adds=call.api_version >= ADDS_FROM
    )
    if admission.wait is None:
        return _append_all(node, call, admission.codes)
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def named(error: MainstemError | None) -> None:
        if error is not None:
            codes: Mapping[TopicPartition, ErrorCode] = dict.fromkeys(producers, error_code(error))
        else:
            # What has happened to the transaction meanwhile counts, and what was refused before stays so.
            again = admit_records(node.transactions, body.transactional_id, producers, call.api_version, adds=False)
            codes = {**again.codes, **admission.codes}
        _append_later(node, call, codes, future)

    node.commit.when_durable(*admission.wait, named)
    return future


def _transactional_producers(node: Node, call: Call) -> dict[TopicPartition, Producer]:
    """The partitions that are there and are sent records of a transaction, and whose."""
    body: ProduceRequest = call.body
    producers = {}
    for data in body.topic_data:
        for item in data.partition_data:
            producer = transactional_producer(item.records) if isinstance(item.records, memoryview) else None
            if producer is not None:
                topic, _ = _find(node, call, body, data)
                if topic is not None and 0 <= item.index < len(topic.partitions):
                    producers[TopicPartition(topic.name, item.index)] = producer
    return producers


def _append_later(
    node: Node, call: Call, refused: Mapping[TopicPartition, ErrorCode], future: asyncio.Future[Answer]
) -> None:
    """Append what had to wait; requests that waited for the same do so in the order in which they came."""
    if future.done():
        return
    try:
        answer = _append_all(node, call, refused)
    except FrameError as error:
        future.set_exception(error)
        return
    if isinstance(answer, asyncio.Future):
        answer.add_done_callback(functools.partial(_pass_on, future))
    else:
        future.set_result(answer)


def _pass_on(future: asyncio.Future[Answer], answered: asyncio.Future[Answer]) -> None:
    if not future.done():
        future.set_result(answered.result())


def _append_all(node: Node, call: Call, refused: Mapping[TopicPartition, ErrorCode]) -> Answer | asyncio.Future[Answer]:
    body: ProduceRequest = call.body
    waiting = None if body.acks == 0 else _Waiting()
    topics = []
    for data in body.topic_data:
        topic, code = _find(node, call, body, data)
        partitions = []
        for item in data.partition_data:
            refusal = refused.get(TopicPartition(topic.name, item.index)) if topic is not None and refused else None
            if refusal is not None:
                partitions.append(_refused(item.index, refusal, None))
            else:
                partitions.append(_append(node, topic, code, item, waiting))
        topics.append(TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=partitions))
    response = ProduceResponse(responses=topics)
    if waiting is not None:
        waiting.response = response
        waiting.one_is_done()
        return waiting.response if waiting.future.done() else waiting.future
    _check_unanswered(response)
    return None


def _check_unanswered(response: ProduceResponse) -> None:
    """With acks=0 nothing but the end of the connection tells the producer that its records were refused."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                raise FrameError(f"{topic.name or topic.topic_id}-{partition.index}: {code.name}, sent with acks=0")


def _find(node: Node, call: Call, body: ProduceRequest, data: TopicProduceData) -> tuple[Topic | None, ErrorCode]:
    if body.acks not in (0, 1, _ALL):
        return None, ErrorCode.INVALID_REQUIRED_ACKS
    if call.api_version >= _BY_ID_FROM:
        topic = node.topics.by_id(data.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = node.topics.get(data.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return None, unknown
    return (None, ErrorCode.INVALID_TOPIC_EXCEPTION) if topic.is_internal else (topic, ErrorCode.NONE)


def _append(
    node: Node, topic: Topic | None, code: ErrorCode, item: PartitionProduceData, waiting: _Waiting | None
) -> PartitionProduceResponse:
    if topic is None:
        return _refused(item.index, code, None)
    records = item.records
    if not isinstance(records, memoryview) or not len(records):
        return _refused(item.index, ErrorCode.INVALID_RECORD, "a produce request without records")
    try:
        log = topic.partition(item.index)
        result = log.append(records)
    except (InvalidRecordError, InvalidTimestampError) as error:
        refused = _refused(item.index, error_code(error), str(error))
        refused.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
            for at, text in error.records.items()
        ]
        return refused
    except MainstemError as error:
        return _refused(item.index, error_code(error), str(error))
    answer = PartitionProduceResponse(
        index=item.index,
        error_code=ErrorCode.NONE,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    if not result.duplicate:
        node.meters.appended_bytes[topic.name] += len(records)
    if not result.duplicate or log.log_end_offset > log.high_watermark:
        node.commit.appended(log)
    if waiting is not None:
        waiting.add(node, log, result.last_offset + 1, answer)
    return answer


def _refused(index: int, code: ErrorCode, message: str | None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1, error_message=message)


API = Api(ApiKey.PRODUCE, Versions(3, 13), handle, advertised=Versions(0, 13), pipelined=True)
