"""The one table from Mainstem's errors to the protocol's error codes, used at the broker's boundary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from mainstem import errors
from mainstem.protocol.errors import ErrorCode, describe

# The first matching class wins, so subclasses are before their bases.
_CODES: Final[tuple[tuple[type[errors.MainstemError], ErrorCode], ...]] = (
    (errors.UnknownTopicError, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (errors.TopicExistsError, ErrorCode.TOPIC_ALREADY_EXISTS),
    (errors.UnknownGroupError, ErrorCode.GROUP_ID_NOT_FOUND),
    (errors.GroupNotEmptyError, ErrorCode.NON_EMPTY_GROUP),
    (errors.RecordListTooLargeError, ErrorCode.RECORD_LIST_TOO_LARGE),
    (errors.RecordTooLargeError, ErrorCode.MESSAGE_TOO_LARGE),
    (errors.InvalidRecordError, ErrorCode.INVALID_RECORD),
    (errors.InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP),
    (errors.OffsetOutOfRangeError, ErrorCode.OFFSET_OUT_OF_RANGE),
    (errors.AuthenticationError, ErrorCode.SASL_AUTHENTICATION_FAILED),
    (errors.AuthorizationError, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    (errors.ConfigError, ErrorCode.INVALID_CONFIG),
    (errors.CorruptBatchError, ErrorCode.CORRUPT_MESSAGE),
    (errors.OutOfOrderSequenceError, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (errors.ProducerFencedError, ErrorCode.PRODUCER_FENCED),
    (errors.InvalidProducerEpochError, ErrorCode.INVALID_PRODUCER_EPOCH),
    (errors.InvalidTransactionStateError, ErrorCode.INVALID_TXN_STATE),
    (errors.TransactionCoordinatorFencedError, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    (errors.ProducerError, ErrorCode.UNKNOWN_PRODUCER_ID),
    (errors.InputError, ErrorCode.INVALID_REQUEST),
    (errors.ProtocolError, ErrorCode.INVALID_REQUEST),
    (errors.IndexNotReadyError, ErrorCode.NOT_ENOUGH_REPLICAS),  # not appended; clients retry on this code
    (errors.UnavailableError, ErrorCode.KAFKA_STORAGE_ERROR),
    (errors.MachineError, ErrorCode.KAFKA_STORAGE_ERROR),
)


def error_code(error: errors.MainstemError) -> ErrorCode:
    """Return the protocol's code for ``error``."""
    if isinstance(error, errors.RemoteError):
        return ErrorCode(error.code)
    return code_of_class(type(error))


def code_of_class(error_class: type[errors.MainstemError]) -> ErrorCode:
    """Return the protocol's code for the errors of a class."""
    for kind, code in _CODES:
        if issubclass(error_class, kind):
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR


def coordinator_code(error: errors.MainstemError, *, knows_fenced: bool = True) -> ErrorCode:
    """Return the code for a client of a coordinator.

    When its log fails, a coordinator answers NOT_COORDINATOR, as in Kafka: clients then look for the coordinator and
    try again, where a storage error would end a Java consumer. Clients that do not know PRODUCER_FENCED (KIP-588) get
    INVALID_PRODUCER_EPOCH.
    """
    code = error_code(error)
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return ErrorCode.NOT_COORDINATOR
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


@contextmanager
def reported_in(answer: Any, code_of: Callable[[errors.MainstemError], ErrorCode] = error_code) -> Iterator[None]:
    """Write the block's error into ``answer``, as its code and its message."""
    try:
        yield
    except errors.MainstemError as error:
        answer.error_code, answer.error_message = code_of(error), str(error)


def refusal(code: ErrorCode, text: str | None = None) -> errors.RemoteError:
    """Create an error that is answered with ``code``, for a case without an exception class of its own."""
    return errors.RemoteError(
        text or describe(code).message, code=int(code), name=code.name, retriable=describe(code).retriable
    )
