"""Produce (0), versions 3–13: appends record batches as they arrive.

One request, step by step (the numbers are in the code):

1. *Check*: every record of every partition is checked before any is appended (``validation_threads``,
   ``log/partition/append_validation``). A check that may take long runs in a thread.
2. *Admit*: records of a transaction are written after the transaction's log durably names their partition. From version
   12 on the request itself adds the partition; before, it must have been added already (``transactions.producing``).
3. *Append*, all partitions in one turn of the event loop.
4. *Answer*, when all of it is on disk.

A request that waits in step 1 or 2 holds the later requests of its connection, so that the order of appends is kept.
Step 4 holds nothing.

acks=all (-1) and acks=1 are answered when the records are on disk. acks=0 is never answered; an error then closes the
connection. No reader ever sees a record before it is on disk. So acks=1 means the same as acks=all, as on a one-node
Apache Kafka: after the answer, the producer can read its records below the high watermark.
Versions 0–2 are listed, as Apache Kafka 4 does for librdkafka, and refused: their record formats are not supported.
A refusal carries the log start offset where Kafka's does: not when the request itself or the disk is the reason.
Deliberate: ``error_message`` is always set; Kafka sets it together with ``record_errors`` only. At most 1,000 records
are named there. ``timeout_ms`` is not needed, having no replicas to wait for. Internal topics take no records from
clients (INVALID_TOPIC_EXCEPTION), and mirrors none either (POLICY_VIOLATION).
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from mainstem.broker.access import record_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.later import Later
from mainstem.broker.node import Node
from mainstem.broker.storage.topics import Topic
from mainstem.broker.storage.validation_threads import Outcome, only_batch
from mainstem.broker.transactions.producing import ADDS_FROM, admit_records, transactional_producer
from mainstem.broker.transactions.state import ProducerIdAndEpoch
from mainstem.errors import FrameError, InvalidRecordError, InvalidTimestampError, MainstemError
from mainstem.log.partition.append_validation import AppendCheck, CheckedAppend
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition
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
from mainstem.protocol.schema import VersionRange

_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The errors of the log that Kafka answers without the log start offset."""
_ALL: Final = -1
_ACKS: Final = (0, 1, _ALL)
_BY_ID_FROM: Final = 13


class _Waiting:
    """Step 4: the partitions that wait for the disk, and the answer to send when none does."""

    def __init__(self) -> None:
        self.future: Later[Answer] = Later()
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


class _PartitionAppend:
    """The records for one partition, on their way through the steps.

    Without ``topic`` there is nowhere to append it. Without ``log`` the request itself is wrong. ``producer`` is whose
    transaction the records are part of.
    """

    __slots__ = ("item", "log", "outcome", "producer", "topic")

    def __init__(self, item: PartitionProduceData, topic: Topic | None) -> None:
        self.item = item
        self.topic = topic
        self.log: PartitionLog | None = None
        self.outcome: Outcome | AppendCheck | ErrorCode = ErrorCode.NONE
        self.producer = transactional_producer(item.records)


def handle(node: Node, call: Call) -> Answer | Awaitable[Answer]:
    """Serve one request; the top of the file has the steps. If one has to wait, the connection's later requests do."""
    appends = _check_quickly(node, call)
    if not _slow_checks(appends):
        codes, wait = _admit(node, call, appends)
        if wait is None:
            return _append_all(node, call, appends, codes)
    return node.append_checks.shielded(_serve_slowly(node, call, appends, call.hold()))


async def _serve_slowly(
    node: Node, call: Call, appends: Sequence[_PartitionAppend], release: Callable[[], None]
) -> Answer:
    """Serve a request whose checks, or whose transaction's log, have to be waited for."""
    try:
        appends = await _check(node, call, appends)
        codes, wait = _admit(node, call, appends)
        if wait is not None:
            try:
                await node.commit.durable(*wait)
            except MainstemError as error:
                codes = dict.fromkeys(_transactional(appends), error_code(error))
            else:
                appends = await _check(node, call, appends)
                # The transaction's current state counts; earlier refusals stay.
                codes = {**_admit(node, call, appends, adds=False)[0], **codes}
        answer = _append_all(node, call, appends, codes)
    finally:
        release()
    return await answer if isinstance(answer, Later) else answer


# ---- 1: check


def _check_quickly(node: Node, call: Call) -> list[_PartitionAppend]:
    """Check the records of each partition, as far as that is fast. What is left has an AppendCheck as its outcome."""
    body: ProduceRequest = call.body
    appends = []
    for data in body.topic_data:
        topic, code = _find(node, call, data)
        for item in data.partition_data:
            append = _PartitionAppend(item, topic)
            appends.append(append)
            if topic is None:
                append.outcome = code
                continue
            try:
                if topic.is_mirror:
                    text = f"topic {topic.name!r} is a mirror: write to its source, or promote it (mainstem promote)"
                    raise refusal(ErrorCode.POLICY_VIOLATION, text)
                log = topic.partition(item.index)
                item.records = only_batch(item.records, call.api_version)
                if body.acks not in _ACKS:
                    raise refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={body.acks}: must be 0, 1 or {_ALL}")
            except MainstemError as error:
                append.outcome = error
            else:
                append.log = log
                append.outcome = node.append_checks.begin(log, item.records)
    return appends


def _slow_checks(appends: Sequence[_PartitionAppend]) -> list[tuple[_PartitionAppend, AppendCheck]]:
    return [(each, each.outcome) for each in appends if isinstance(each.outcome, AppendCheck)]


async def _check(node: Node, call: Call, appends: Sequence[_PartitionAppend]) -> Sequence[_PartitionAppend]:
    """Finish the slow checks; begin again where a topic or its configs were changed meanwhile."""
    while True:
        for append, check in _slow_checks(appends):
            assert append.log is not None
            append.outcome = await node.append_checks.finish(append.log, check)
        if all(_is_current(node, append) for append in appends):
            return appends
        appends = _check_quickly(node, call)


def _is_current(node: Node, append: _PartitionAppend) -> bool:
    """Whether the topic and the configs by which the records were checked are still there."""
    topic, log, checked = append.topic, append.log, append.outcome
    if topic is None or log is None or not isinstance(checked, CheckedAppend):
        return True
    return node.topics.by_id(topic.topic_id) is topic and log.is_current(checked)


def _find(node: Node, call: Call, data: TopicProduceData) -> tuple[Topic | None, ErrorCode]:
    if call.api_version >= _BY_ID_FROM:
        topic = node.topics.by_id(data.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = node.topics.get(data.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return None, unknown
    return (None, ErrorCode.INVALID_TOPIC_EXCEPTION) if topic.is_internal else (topic, ErrorCode.NONE)


# ---- 2: admit to the transaction


def _admit(
    node: Node, call: Call, appends: Sequence[_PartitionAppend], *, adds: bool = True
) -> tuple[Mapping[TopicPartition, ErrorCode], tuple[PartitionLog, int] | None]:
    """Return the partitions that the transaction refuses, and the log and offset that must be durable before.

    ``adds``: partitions that are not part of the transaction yet become so, from version 12 on.
    """
    transactional_id = call.body.transactional_id
    if transactional_id is None or call.body.acks not in _ACKS or not (producers := _transactional(appends)):
        return {}, None
    adds = adds and call.api_version >= ADDS_FROM
    return admit_records(node.transactions, transactional_id, producers, call.api_version, adds=adds)


def _transactional(appends: Sequence[_PartitionAppend]) -> dict[TopicPartition, ProducerIdAndEpoch]:
    """Return the existing partitions that get records of a transaction, each with its producer."""
    return {
        TopicPartition(each.topic.name, each.item.index): each.producer
        for each in appends
        if each.producer is not None
        and each.topic is not None
        and not each.topic.is_mirror
        and 0 <= each.item.index < len(each.topic.partitions)
    }


# ---- 3: append


def _append_all(
    node: Node, call: Call, appends: Sequence[_PartitionAppend], refused: Mapping[TopicPartition, ErrorCode]
) -> Answer | Later[Answer]:
    body: ProduceRequest = call.body
    if body.transactional_id is None and [each for each in appends if each.producer is not None]:
        return _refuse_all(body, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    waiting = None if body.acks == 0 else _Waiting()
    begins_at_zero = call.api_version >= ADDS_FROM
    rest = iter(appends)
    topics = []
    for data in body.topic_data:
        partitions = []
        for append in itertools.islice(rest, len(data.partition_data)):
            if refused and append.topic is not None:
                append.outcome = refused.get(TopicPartition(append.topic.name, append.item.index), append.outcome)
            partitions.append(_append(node, append, waiting, begins_at_zero=begins_at_zero))
        topics.append(TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=partitions))
    response = ProduceResponse(responses=topics)
    if waiting is not None:
        waiting.response = response
        waiting.one_is_done()
        return waiting.response if waiting.future.done() else waiting.future
    _check_unanswered(response)
    return None


def _append(
    node: Node, append: _PartitionAppend, waiting: _Waiting | None, *, begins_at_zero: bool
) -> PartitionProduceResponse:
    item, topic, log, checked = append.item, append.topic, append.log, append.outcome
    if isinstance(checked, ErrorCode):
        return _refused(item.index, checked, None)
    if isinstance(checked, MainstemError):
        return _refused_for(item.index, checked, log)
    assert topic is not None
    assert log is not None
    assert isinstance(checked, CheckedAppend)
    try:
        is_in_transaction = append.producer is not None
        result = log.append_checked(checked, begins_at_zero=begins_at_zero and is_in_transaction)
    except MainstemError as error:
        return _refused_for(item.index, error, log)
    answer = PartitionProduceResponse(
        index=item.index,
        error_code=ErrorCode.NONE,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    if not result.duplicate:
        node.meters.appended_bytes[topic.name] += len(checked.view)
    if not result.duplicate or log.log_end_offset > log.high_watermark:
        node.commit.appended(log)
    if waiting is not None:
        waiting.add(node, log, result.last_offset + 1, answer)
    return answer


def _refuse_all(body: ProduceRequest, code: ErrorCode) -> Answer:
    """Refuse every partition of the request with the same code."""
    responses = [
        TopicProduceResponse(
            name=data.name,
            topic_id=data.topic_id,
            partition_responses=[_refused(item.index, code, None) for item in data.partition_data],
        )
        for data in body.topic_data
    ]
    response = ProduceResponse(responses=responses)
    if body.acks:
        return response
    _check_unanswered(response)
    return None


def _check_unanswered(response: ProduceResponse) -> None:
    """Raise FrameError if records were refused: with acks=0 only a closed connection reports it to the producer."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                raise FrameError(f"{topic.name or topic.topic_id}-{partition.index}: {code.name}, sent with acks=0")


def _refused_for(index: int, error: MainstemError, log: PartitionLog | None) -> PartitionProduceResponse:
    code = error_code(error)
    refused = _refused(index, code, str(error))
    if log is not None and code not in _WITHOUT_LOG_START:
        refused.log_start_offset = log.log_start_offset
    if isinstance(error, (InvalidRecordError, InvalidTimestampError)):
        refused.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
            for at, text in error.records.items()
        ]
    return refused


def _refused(index: int, code: ErrorCode, message: str | None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1, error_message=message)


API = Api(ProduceRequest, handle, record_guards.produce, advertised=VersionRange(0, 13), pipelined=True)
