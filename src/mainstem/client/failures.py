"""The one table that turns error codes, the protocol's and librdkafka's own, into Mainstem's errors.

Non-negative codes (and -1) are Kafka's; those from -200 to -100 are librdkafka's, for what happens inside of the
client. A code of the protocol that has no class of its own is a RemoteError with its name. Stateless; safe from any
thread.
"""

from __future__ import annotations

from mainstem import errors
from mainstem.protocol.errors import ErrorCode, describe
from mainstem.record.append_headers import parse_condition

_E = ErrorCode
_LIBRDKAFKA_FIRST, _LIBRDKAFKA_LAST = -200, -100

_OF_PROTOCOL: dict[int, type[errors.MainstemError]] = {
    _E.OFFSET_OUT_OF_RANGE: errors.OffsetOutOfRangeError,
    _E.CORRUPT_MESSAGE: errors.CorruptBatchError,
    _E.UNKNOWN_TOPIC_OR_PARTITION: errors.UnknownTopicError,
    _E.UNKNOWN_TOPIC_ID: errors.UnknownTopicError,
    _E.INCONSISTENT_TOPIC_ID: errors.UnknownTopicError,
    _E.REQUEST_TIMED_OUT: errors.LogUnavailableError,
    _E.BROKER_NOT_AVAILABLE: errors.LogUnavailableError,
    _E.NETWORK_EXCEPTION: errors.LogUnavailableError,
    _E.SASL_AUTHENTICATION_FAILED: errors.AuthenticationError,
    _E.UNSUPPORTED_SASL_MECHANISM: errors.AuthenticationError,
    _E.ILLEGAL_SASL_STATE: errors.AuthenticationError,
    _E.TOPIC_AUTHORIZATION_FAILED: errors.AuthorizationError,
    _E.GROUP_AUTHORIZATION_FAILED: errors.AuthorizationError,
    _E.CLUSTER_AUTHORIZATION_FAILED: errors.AuthorizationError,
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: errors.AuthorizationError,
    _E.MESSAGE_TOO_LARGE: errors.RecordTooLargeError,
    _E.RECORD_LIST_TOO_LARGE: errors.RecordTooLargeError,
    _E.INVALID_TOPIC_EXCEPTION: errors.InputError,
    _E.INVALID_TIMESTAMP: errors.InvalidTimestampError,
    _E.INVALID_RECORD: errors.InvalidRecordError,
    _E.TOPIC_ALREADY_EXISTS: errors.TopicExistsError,
    _E.INVALID_PARTITIONS: errors.ConfigError,
    _E.INVALID_REPLICATION_FACTOR: errors.ConfigError,
    _E.INVALID_REPLICA_ASSIGNMENT: errors.ConfigError,
    _E.INVALID_CONFIG: errors.ConfigError,
    _E.POLICY_VIOLATION: errors.ConfigError,
    _E.OUT_OF_ORDER_SEQUENCE_NUMBER: errors.OutOfOrderSequenceError,
    _E.DUPLICATE_SEQUENCE_NUMBER: errors.ProducerError,
    _E.INVALID_PRODUCER_EPOCH: errors.InvalidProducerEpochError,
    _E.INVALID_TXN_STATE: errors.InvalidTransactionStateError,
    _E.INVALID_PRODUCER_ID_MAPPING: errors.ProducerError,
    _E.UNKNOWN_PRODUCER_ID: errors.ProducerError,
    _E.PRODUCER_FENCED: errors.ProducerFencedError,
    _E.INVALID_TRANSACTION_TIMEOUT: errors.ConfigError,
    _E.KAFKA_STORAGE_ERROR: errors.PartitionOfflineError,
}

# librdkafka's RD_KAFKA_RESP_ERR__…, by number.
_OF_LIBRDKAFKA: dict[int, type[errors.MainstemError]] = {
    -199: errors.CorruptBatchError,  # _BAD_MSG
    -198: errors.CorruptBatchError,  # _BAD_COMPRESSION
    -197: errors.LogUnavailableError,  # _DESTROY: the client is being closed
    -196: errors.ProtocolError,  # _FAIL
    -195: errors.LogUnavailableError,  # _TRANSPORT
    -194: errors.LogUnavailableError,  # _CRIT_SYS_RESOURCE
    -193: errors.LogUnavailableError,  # _RESOLVE
    -192: errors.LogUnavailableError,  # _MSG_TIMED_OUT
    -191: errors.OffsetOutOfRangeError,  # _PARTITION_EOF
    -190: errors.UnknownTopicError,  # _UNKNOWN_PARTITION
    -189: errors.ProtocolError,  # _FS
    -188: errors.UnknownTopicError,  # _UNKNOWN_TOPIC
    -187: errors.LogUnavailableError,  # _ALL_BROKERS_DOWN
    -186: errors.ConfigError,  # _INVALID_ARG
    -185: errors.LogUnavailableError,  # _TIMED_OUT
    -184: errors.LogUnavailableError,  # _QUEUE_FULL
    -183: errors.LogUnavailableError,  # _ISR_INSUFF
    -182: errors.LogUnavailableError,  # _NODE_UPDATE
    -181: errors.LogUnavailableError,  # _SSL
    -180: errors.LogUnavailableError,  # _WAIT_COORD
    -179: errors.InputError,  # _UNKNOWN_GROUP
    -178: errors.ProtocolError,  # _IN_PROGRESS
    -177: errors.ProtocolError,  # _PREV_IN_PROGRESS
    -176: errors.ProtocolError,  # _EXISTING_SUBSCRIPTION
    -175: errors.ProtocolError,  # _ASSIGN_PARTITIONS
    -174: errors.ProtocolError,  # _REVOKE_PARTITIONS
    -173: errors.ProtocolError,  # _CONFLICT
    -172: errors.ProtocolError,  # _STATE
    -171: errors.ProtocolError,  # _UNKNOWN_PROTOCOL
    -170: errors.ProtocolError,  # _NOT_IMPLEMENTED
    -169: errors.AuthenticationError,  # _AUTHENTICATION
    -168: errors.OffsetOutOfRangeError,  # _NO_OFFSET
    -167: errors.ProtocolError,  # _OUTDATED
    -166: errors.LogUnavailableError,  # _TIMED_OUT_QUEUE
    -165: errors.ProtocolError,  # _UNSUPPORTED_FEATURE
    -164: errors.LogUnavailableError,  # _WAIT_CACHE
    -163: errors.LogUnavailableError,  # _INTR
    -162: errors.InputError,  # _KEY_SERIALIZATION
    -161: errors.InputError,  # _VALUE_SERIALIZATION
    -160: errors.CorruptBatchError,  # _KEY_DESERIALIZATION
    -159: errors.CorruptBatchError,  # _VALUE_DESERIALIZATION
    -158: errors.ProtocolError,  # _PARTIAL
    -157: errors.ProtocolError,  # _READ_ONLY
    -156: errors.InputError,  # _NOENT
    -155: errors.CorruptBatchError,  # _UNDERFLOW
    -154: errors.ConfigError,  # _INVALID_TYPE
    -153: errors.LogUnavailableError,  # _RETRY
    -152: errors.LogUnavailableError,  # _PURGE_QUEUE
    -151: errors.LogUnavailableError,  # _PURGE_INFLIGHT
    -150: errors.ProducerError,  # _FATAL
    -149: errors.ProtocolError,  # _INCONSISTENT
    -148: errors.ProducerError,  # _GAPLESS_GUARANTEE
    -147: errors.ProtocolError,  # _MAX_POLL_EXCEEDED
    -146: errors.LogUnavailableError,  # _UNKNOWN_BROKER
    -145: errors.ConfigError,  # _NOT_CONFIGURED
    -144: errors.ProducerFencedError,  # _FENCED
    -143: errors.ProtocolError,  # _APPLICATION
    -142: errors.ProtocolError,  # _ASSIGNMENT_LOST
    -141: errors.ProtocolError,  # _NOOP
    -140: errors.OffsetOutOfRangeError,  # _AUTO_OFFSET_RESET
    -139: errors.OffsetOutOfRangeError,  # _LOG_TRUNCATION
    -138: errors.InputError,  # _INVALID_DIFFERENT_RECORD
    -137: errors.LogUnavailableError,  # _DESTROY_BROKER
}


def error_of(code: int, context: str, said: str | None = None) -> errors.MainstemError:
    """The error for ``code``. ``context`` says what was tried; ``said`` is the log's own text, if any."""
    if _LIBRDKAFKA_FIRST <= code <= _LIBRDKAFKA_LAST:
        return _OF_LIBRDKAFKA.get(code, errors.ProtocolError)(f"{context}: {said or f'librdkafka error {code}'}")
    if code == _E.INVALID_RECORD and said is not None and (failed := parse_condition(said)) is not None:
        return failed
    name, retriable, message = describe(code)
    text = f"{context}: {said or message}"
    error_class = _OF_PROTOCOL.get(code)
    if error_class is None:
        return errors.RemoteError(f"{text} ({name})", code=code, name=name, retriable=retriable)
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
