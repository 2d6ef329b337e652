"""Produce (0), versions 3–13: appends record batches as they arrive.

acks=all (-1) and acks=1 are answered when the records are on disk. acks=0 is never answered; an error then closes the
connection. No reader ever sees a record before it is on disk. So acks=1 means the same as acks=all, as on a one-node
Apache Kafka: after the answer, the producer can read its records below the high watermark.
Versions 0–2 are listed, as Apache Kafka 4 does for librdkafka, and refused: their record formats are not supported.
Records of a transaction are written after the transaction's log durably names their partition. From version 12 on the
request itself adds the partition; before, it must have been added already (see ``transactions.producing``).
Every record is checked before anything is appended (``validation_threads``, ``append_validation``). While a thread
checks a request's records, later requests on its connection wait, so that the order of appends is kept.
A refusal carries the log start offset where Kafka's does: not when the request itself or the disk is the reason.
Deliberate: ``error_message`` is always set; Kafka sets it together with ``record_errors`` only. At most 1,000 records
are named there. ``timeout_ms`` is not needed, having no replicas to wait for. Internal topics take no records from
clients (INVALID_TOPIC_EXCEPTION).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from mainstem.broker.access import record_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.storage.topics import Topic
from mainstem.broker.storage.validation_threads import Outcome, RequestRefusal, only_batch
from mainstem.broker.transactions.producing import ADDS_FROM, admit_records, transactional_producer
from mainstem.broker.transactions.state import Producer
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

if TYPE_CHECKING:
    from mainstem.broker.node import Node

_Place: TypeAlias = tuple[int, int]
"""The place of a partition in a request: the index of its topic, and its own index in the topic."""
_Checks: TypeAlias = dict[_Place, Outcome | AppendCheck]
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
_NEWEST: Final = 13
_ALL: Final = -1
_ACKS: Final = (0, 1, _ALL)
_BY_ID_FROM: Final = 13


class _Waiting:
    """A request in progress: the partitions that wait for the disk, and the answer to send when none does."""

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
    checks, are_done = _begin_checks(node, call)
    if are_done:
        return _serve(node, call, checks)
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    node.append_checks.spawn(_serve_checked(node, call, checks, future, call.hold()))
    return future


def _begin_checks(node: Node, call: Call) -> tuple[_Checks, bool]:
    """Check the records of each existing partition, as far as that is fast; return whether all are checked."""
    body: ProduceRequest = call.body
    checks: _Checks = {}
    are_done = True
    for at, data in enumerate(body.topic_data):
        topic, _ = _find(node, call, body, data)
        for item_at, item in enumerate(data.partition_data if topic is not None else ()):
            assert topic is not None
            try:
                log = topic.partition(item.index)
                records = item.records = only_batch(item.records, call.api_version)
                if body.acks not in _ACKS:
                    raise refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={body.acks}: must be 0, 1 or {_ALL}")
            except MainstemError as error:
                checks[at, item_at] = RequestRefusal(error)
            else:
                check = checks[at, item_at] = node.append_checks.begin(log, records)
                are_done = are_done and not isinstance(check, AppendCheck)
    return checks, are_done


async def _serve_checked(
    node: Node, call: Call, checks: _Checks, future: asyncio.Future[Answer], release: Callable[[], None]
) -> None:
    """Finish the slow checks, and serve the request; later requests on the connection are held until then."""
    try:
        for place, check in checks.items():
            if isinstance(check, AppendCheck):
                checks[place] = await node.append_checks.finish(check)
        answer = _serve(node, call, checks)
    except Exception as error:  # noqa: BLE001 - it is the request's, and ends its connection
        if not future.done():
            future.set_exception(error)
    else:
        _settle(future, answer)
    finally:
        release()


def _settle(future: asyncio.Future[Answer], answer: Answer | asyncio.Future[Answer]) -> None:
    if isinstance(answer, asyncio.Future):
        answer.add_done_callback(functools.partial(_pass_on, future))
    elif not future.done():
        future.set_result(answer)


def _serve(node: Node, call: Call, checks: _Checks) -> Answer | asyncio.Future[Answer]:
    body: ProduceRequest = call.body
    transactional_id = body.transactional_id
    if transactional_id is None:
        if _has_transactional_records(body):
            return _refuse_all(body, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _append_all(node, call, checks, {})
    producers = _transactional_producers(node, call)
    if not producers:
        return _append_all(node, call, checks, {})
    admission = admit_records(
        node.transactions, transactional_id, producers, call.api_version, adds=call.api_version >= ADDS_FROM
    )
    if admission.wait is None:
        return _append_all(node, call, checks, admission.codes)
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def named(error: MainstemError | None) -> None:
        if error is not None:
            codes: Mapping[TopicPartition, ErrorCode] = dict.fromkeys(producers, error_code(error))
        else:
            # The transaction's current state counts; earlier refusals stay.
            again = admit_records(node.transactions, transactional_id, producers, call.api_version, adds=False)
            codes = {**again.codes, **admission.codes}
        _append_later(node, call, checks, codes, future)

    node.commit.when_durable(*admission.wait, named)
    return future


def _has_transactional_records(body: ProduceRequest) -> bool:
    return any(
        isinstance(item.records, memoryview) and transactional_producer(item.records) is not None
        for data in body.topic_data
        for item in data.partition_data
    )


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


def _transactional_producers(node: Node, call: Call) -> dict[TopicPartition, Producer]:
    """Return the existing partitions that get records of a transaction, each with its producer."""
    body: ProduceRequest = call.body
    producers = {}
    for data in body.topic_data if body.acks in _ACKS else ():
        for item in data.partition_data:
            producer = transactional_producer(item.records) if isinstance(item.records, memoryview) else None
            if producer is not None:
                topic, _ = _find(node, call, body, data)
                if topic is not None and 0 <= item.index < len(topic.partitions):
                    producers[TopicPartition(topic.name, item.index)] = producer
    return producers


def _append_later(
    node: Node,
    call: Call,
    checks: _Checks,
    refused: Mapping[TopicPartition, ErrorCode],
    future: asyncio.Future[Answer],
) -> None:
    """Append the partitions that had to wait; requests that waited for the same thing append in order of arrival."""
    if future.done():
        return
    try:
        _settle(future, _append_all(node, call, checks, refused))
    except FrameError as error:
        future.set_exception(error)


def _pass_on(future: asyncio.Future[Answer], answered: asyncio.Future[Answer]) -> None:
    if not future.done():
        future.set_result(answered.result())


def _append_all(
    node: Node, call: Call, checks: _Checks, refused: Mapping[TopicPartition, ErrorCode]
) -> Answer | asyncio.Future[Answer]:
    body: ProduceRequest = call.body
    waiting = None if body.acks == 0 else _Waiting()
    begins_at_zero = call.api_version >= ADDS_FROM
    topics = []
    for at, data in enumerate(body.topic_data):
        topic, code = _find(node, call, body, data)
        partitions = []
        for item_at, item in enumerate(data.partition_data):
            why = refused.get(TopicPartition(topic.name, item.index)) if topic is not None and refused else None
            if topic is None or why is not None:
                partitions.append(_refused(item.index, why or code, None))
            else:
                checked = checks.get((at, item_at))
                partitions.append(_append(node, topic, item, checked, waiting, begins_at_zero=begins_at_zero))
        topics.append(TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=partitions))
    response = ProduceResponse(responses=topics)
    if waiting is not None:
        waiting.response = response
        waiting.one_is_done()
        return waiting.response if waiting.future.done() else waiting.future
    _check_unanswered(response)
    return None


def _check_unanswered(response: ProduceResponse) -> None:
    """Raise FrameError if records were refused: with acks=0 only a closed connection reports it to the producer."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                raise FrameError(f"{topic.name or topic.topic_id}-{partition.index}: {code.name}, sent with acks=0")


def _find(node: Node, call: Call, body: ProduceRequest, data: TopicProduceData) -> tuple[Topic | None, ErrorCode]:
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
    node: Node,
    topic: Topic,
    item: PartitionProduceData,
    checked: Outcome | AppendCheck | None,
    waiting: _Waiting | None,
    *,
    begins_at_zero: bool,
) -> PartitionProduceResponse:
    log = None
    try:
        if isinstance(checked, RequestRefusal):
            raise checked.error
        log = topic.partition(item.index)
        if isinstance(checked, MainstemError):
            raise checked
        if not isinstance(checked, CheckedAppend) or not log.is_current(checked):
            # The topic was created, or its configs were changed, since the check.
            checked = log.start_append(only_batch(item.records, _NEWEST)).run()
        is_in_transaction = checked.sent[0].is_transactional
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
