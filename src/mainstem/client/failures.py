"""The one table that turns error codes, the protocol's and librdkafka's own, into Mainstem's errors.

Non-negative codes (and -1) are Kafka's; those from -200 to -100 are librdkafka's, for what happens inside of the
client. A code of the protocol that has no class of its own is a RemoteError with its name. Stateless; safe from any
thread.
"""

from __future__ import annotations

from mainstem.errors import (
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    CorruptBatchError,
    InputError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTransactionStateError,
    LogUnavailableError,
    MainstemError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    PartitionOfflineError,
    ProducerError,
    ProducerFencedError,
    ProtocolError,
    RecordTooLargeError,
    RemoteError,
    TopicExistsError,
    UnknownTopicError,
)
from mainstem.protocol.errors import ErrorCode, describe
from mainstem.record.append_headers import parse_condition

_E = ErrorCode
_LIBRDKAFKA_FIRST, _LIBRDKAFKA_LAST = -200, -100

_OF_PROTOCOL: dict[int, type[MainstemError]] = {
    _E.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    _E.CORRUPT_MESSAGE: CorruptBatchError,
    _E.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    _E.UNKNOWN_TOPIC_ID: UnknownTopicError,
    _E.INCONSISTENT_TOPIC_ID: UnknownTopicError,
    _E.REQUEST_TIMED_OUT: LogUnavailableError,
    _E.BROKER_NOT_AVAILABLE: LogUnavailableError,
    _E.NETWORK_EXCEPTION: LogUnavailableError,
    _E.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    _E.UNSUPPORTED_SASL_MECHANISM: AuthenticationError,
    _E.ILLEGAL_SASL_STATE: AuthenticationError,
    _E.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    _E.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    _E.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    _E.MESSAGE_TOO_LARGE: RecordTooLargeError,
    _E.RECORD_LIST_TOO_LARGE: RecordTooLargeError,
    _E.INVALID_TOPIC_EXCEPTION: InputError,
    _E.INVALID_TIMESTAMP: InvalidTimestampError,
    _E.INVALID_RECORD: InvalidRecordError,
    _E.TOPIC_ALREADY_EXISTS: TopicExistsError,
    _E.INVALID_PARTITIONS: ConfigError,
    _E.INVALID_REPLICATION_FACTOR: ConfigError,
    _E.INVALID_REPLICA_ASSIGNMENT: ConfigError,
    _E.INVALID_CONFIG: ConfigError,
    _E.POLICY_VIOLATION: ConfigError,
    _E.OUT_OF_ORDER_SEQUENCE_NUMBER: OutOfOrderSequenceError,
    _E.DUPLICATE_SEQUENCE_NUMBER: ProducerError,
    _E.INVALID_PRODUCER_EPOCH: InvalidProducerEpochError,
    _E.INVALID_TXN_STATE: InvalidTransactionStateError,
    _E.INVALID_PRODUCER_ID_MAPPING: ProducerError,
    _E.UNKNOWN_PRODUCER_ID: ProducerError,
    _E.PRODUCER_FENCED: ProducerFencedError,
    _E.INVALID_TRANSACTION_TIMEOUT: ConfigError,
    _E.KAFKA_STORAGE_ERROR: PartitionOfflineError,
}

# librdkafka's RD_KAFKA_RESP_ERR__…, by number.
_OF_LIBRDKAFKA: dict[int, type[MainstemError]] = {
    -199: CorruptBatchError,  # _BAD_MSG
    -198: CorruptBatchError,  # _BAD_COMPRESSION
    -197: LogUnavailableError,  # _DESTROY: the client is being closed
    -196: ProtocolError,  # _FAIL
    -195: LogUnavailableError,  # _TRANSPORT
    -194: LogUnavailableError,  # _CRIT_SYS_RESOURCE
    -193: LogUnavailableError,  # _RESOLVE
    -192: LogUnavailableError,  # _MSG_TIMED_OUT
    -191: OffsetOutOfRangeError,  # _PARTITION_EOF
    -190: UnknownTopicError,  # _UNKNOWN_PARTITION
    -189: ProtocolError,  # _FS
    -188: UnknownTopicError,  # _UNKNOWN_TOPIC
    -187: LogUnavailableError,  # _ALL_BROKERS_DOWN
    -186: ConfigError,  # _INVALID_ARG
    -185: LogUnavailableError,  # _TIMED_OUT
    -184: LogUnavailableError,  # _QUEUE_FULL
    -183: LogUnavailableError,  # _ISR_INSUFF
    -182: LogUnavailableError,  # _NODE_UPDATE
    -181: LogUnavailableError,  # _SSL
    -180: LogUnavailableError,  # _WAIT_COORD
    -179: InputError,  # _UNKNOWN_GROUP
    -178: ProtocolError,  # _IN_PROGRESS
    -177: ProtocolError,  # _PREV_IN_PROGRESS
    -176: ProtocolError,  # _EXISTING_SUBSCRIPTION
    -175: ProtocolError,  # _ASSIGN_PARTITIONS
    -174: ProtocolError,  # _REVOKE_PARTITIONS
    -173: ProtocolError,  # _CONFLICT
    -172: ProtocolError,  # _STATE
    -171: ProtocolError,  # _UNKNOWN_PROTOCOL
    -170: ProtocolError,  # _NOT_IMPLEMENTED
    -169: AuthenticationError,  # _AUTHENTICATION
    -168: OffsetOutOfRangeError,  # _NO_OFFSET
    -167: ProtocolError,  # _OUTDATED
    -166: LogUnavailableError,  # _TIMED_OUT_QUEUE
    -165: ProtocolError,  # _UNSUPPORTED_FEATURE
    -164: LogUnavailableError,  # _WAIT_CACHE
    -163: LogUnavailableError,  # _INTR
    -162: InputError,  # _KEY_SERIALIZATION
    -161: InputError,  # _VALUE_SERIALIZATION
    -160: CorruptBatchError,  # _KEY_DESERIALIZATION
    -159: CorruptBatchError,  # _VALUE_DESERIALIZATION
    -158: ProtocolError,  # _PARTIAL
    -157: ProtocolError,  # _READ_ONLY
    -156: InputError,  # _NOENT
    -155: CorruptBatchError,  # _UNDERFLOW
    -154: ConfigError,  # _INVALID_TYPE
    -153: LogUnavailableError,  # _RETRY
    -152: LogUnavailableError,  # _PURGE_QUEUE
    -151: LogUnavailableError,  # _PURGE_INFLIGHT
    -150: ProducerError,  # _FATAL
    -149: ProtocolError,  # _INCONSISTENT
    -148: ProducerError,  # _GAPLESS_GUARANTEE
    -147: ProtocolError,  # _MAX_POLL_EXCEEDED
    -146: LogUnavailableError,  # _UNKNOWN_BROKER
    -145: ConfigError,  # _NOT_CONFIGURED
    -144: ProducerFencedError,  # _FENCED
    -143: ProtocolError,  # _APPLICATION
    -142: ProtocolError,  # _ASSIGNMENT_LOST
    -141: ProtocolError,  # _NOOP
    -140: OffsetOutOfRangeError,  # _AUTO_OFFSET_RESET
    -139: OffsetOutOfRangeError,  # _LOG_TRUNCATION
    -138: InputError,  # _INVALID_DIFFERENT_RECORD
    -137: LogUnavailableError,  # _DESTROY_BROKER
}


def error_of(code: int, context: str, said: str | None = None) -> MainstemError:
    """The error for ``code``. ``context`` says what was tried; ``said`` is the log's own text, if any."""
    if _LIBRDKAFKA_FIRST <= code <= _LIBRDKAFKA_LAST:
        return _OF_LIBRDKAFKA.get(code, ProtocolError)(f"{context}: {said or f'librdkafka error {code}'}")
    if code == _E.INVALID_RECORD and said is not None and (failed := parse_condition(said)) is not None:
        return failed
    name, retriable, message = describe(code)
    text = f"{context}: {said or message}"
    error_class = _OF_PROTOCOL.get(code)
    if error_class is None:
        return RemoteError(f"{text} ({name})", code=code, name=name, retriable=retriable)
    return error_class(text)


def heals(code: int) -> bool:
    """Whether the same request may succeed after a pause and a look at fresh metadata, e.g. as a leader moved."""
    return code in _HEALING


_HEALING = frozenset(
    {
        _E.UNKNOWN_TOPIC_OR_PARTITION,  # the metadata says whether it is there: a broker may learn of it late
        _E.LEADER_NOT_AVAILABLE,
        _E.NOT_LEADER_OR_FOLLOWER,
        _E.REPLICA_NOT_AVAILABLE,
        _E.NOT_ENOUGH_REPLICAS,
        _E.COORDINATOR_LOAD_IN_PROGRESS,
        _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_COORDINATOR,
        _E.NOT_CONTROLLER,
        _E.CONCURRENT_TRANSACTIONS,
        _E.FENCED_LEADER_EPOCH,
        _E.UNKNOWN_LEADER_EPOCH,
        _E.OFFSET_NOT_AVAILABLE,
        _E.UNSTABLE_OFFSET_COMMIT,
        _E.THROTTLING_QUOTA_EXCEEDED,
        _E.UNKNOWN_TOPIC_ID,
        _E.INCONSISTENT_TOPIC_ID,
    }
)
