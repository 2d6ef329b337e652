"""Every error that Mainstem raises on purpose, drawn as a tree.

    MainstemError
    ├── InputError                    the caller's fault: change the request; a repeat fails again
    │   ├── PositionFormatError       not a position's text form
    │   ├── PositionError             a position that can never be reached (beyond the end, not upstream)
    │   ├── UnknownTopicError         no such topic or partition
    │   ├── TopicExistsError          the topic exists already
    │   ├── UnknownViewError          no such view
    │   ├── UnknownPipelineError      no such pipeline
    │   ├── PipelineNotRunningError   the App of the pipeline does not run, and this needs it
    │   ├── UnknownGroupError         no such group
    │   ├── GroupNotEmptyError        the group has members, and this needs one without
    │   ├── UnknownUserError          no such user of the log
    │   ├── UnknownTokenError         no such token of the gateway
    │   ├── TokenExistsError          a token of that name exists already
    │   ├── UnknownRequestError       no such request, or not the asker's
    │   ├── RequestExpiredError       a request whose reply was removed from the log
    │   ├── UnknownStreamError        no such durable stream
    │   ├── StreamConflictError       a durable stream that is closed, or does not take this
    │   ├── StreamRemovedError        a durable stream, or a part of it, that was removed
    │   ├── StaleProducerError        a producer of a durable stream that a later one has fenced
    │   ├── UnknownTileError          the tree of a verifiable topic has no such tile
    │   ├── RecordTooLargeError       over max.message.bytes
    │   │   └── RecordListTooLargeError   over segment.bytes
    │   ├── InvalidRecordError        a record batch that this topic does not take
    │   │   └── ConditionFailedError  an append whose condition does not hold; it has the actual offset
    │   ├── UnsupportedFeatureError   the log, or the topic as it is configured, cannot do what was asked
    │   ├── InvalidTimestampError     timestamps outside the topic's bounds, or of the wrong type
    │   ├── OffsetOutOfRangeError     before the log start offset or past the log end offset
    │   ├── SchemaError               a record or a file does not fit its topic's schema
    │   ├── MirrorRefusedError        a target that is not the copy of its source, or cannot be
    │   ├── HistoryRemovedError       retention has removed what the request needs
    │   ├── ProofError                a proof, a signature or a history that does not hold
    │   ├── QueryError                a query that is wrong, would write, or ran over its limits
    │   ├── DefinitionError           an App declares something impossible
    │   ├── AuthenticationError       the user is not who it says: password, certificate, mechanism
    │   ├── AuthorizationError        the user may not do this: an ACL is missing, or denies it
    │   └── ConfigError               a setting that is unknown or out of its range
    ├── ProtocolError                 the peer sent bytes that are not the Kafka protocol, or an error code
    │   ├── FrameError                a frame that cannot be read; the connection must be closed
    │   ├── CorruptBatchError         a record batch that is damaged
    │   │   └── DamagedRecordsError       offsets of a partition that cannot be read; it names them
    │   ├── ProducerError             an idempotent producer out of order, fenced or unknown
    │   │   ├── OutOfOrderSequenceError    a gap before this batch, or one too old to be known as a duplicate
    │   │   ├── InvalidProducerEpochError  a newer instance of this producer has written since
    │   │   ├── ProducerFencedError        a newer producer with the same transactional id took over
    │   │   ├── InvalidTransactionStateError        a write outside the transaction that its producer has open
    │   │   └── TransactionCoordinatorFencedError   a marker of a transaction coordinator that was replaced
    │   └── RemoteError               the log answered with an error code of the protocol
    ├── UnavailableError              not now: the same request may succeed later
    │   ├── IndexNotReadyError        an index that the request needs is still being built
    │   ├── LogUnavailableError       the log cannot be reached, or did not answer in time
    │   │   └── OutcomeUnknownError   an append was sent and its answer got lost: the log may have it, or not
    │   ├── PositionTimeoutError      `at_least` was not reached in time
    │   ├── TransactionTimeoutError   a transaction took too long, and was aborted
    │   ├── ViewStoppedError          a view stopped; it says why and what to do
    │   ├── PipelineFailedError       a pipeline's query failed; it says why
    │   ├── RequestFailedError        the worker that took a request says that it failed
    │   └── PartitionOfflineError     a partition refuses writes until restart (a disk error)
    └── MachineError                  this machine: what is missing or in the way
        ├── DirectoryLockedError      another process owns the data directory
        ├── StorageError              the disk refused: permission, space, input/output
        │   └── DamagedTreeError          the tree of a verifiable partition is damaged or lost
        ├── AddressInUseError         the port is taken
        └── MissingDependencyError    Java, an extra, a data package

An error's text is one line that says what is wrong and what to do. Each boundary translates once: the broker to the
protocol's error codes, the gateway to HTTP problems, the command line to exit codes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mainstem.model import Position, TopicPartition


_PLAINER: Final = (
    (r"(?:Input should be a valid integer|Unable to parse input string as an integer).*", "use a whole number"),
    (r"Input should be a valid number.*", "use a number"),
    (r"Input should be a valid boolean.*", "use true or false"),
    (r"Input should be greater than or equal to (\S+)", r"use \1 or more"),
    (r"Input should be less than or equal to (\S+)", r"use \1 or less"),
    (r"Value error, ", ""),
)


def in_plain_words(text: str) -> str:
    """The text of a check of pydantic (requests over HTTP, options of commands) in our words."""
    for raw, plain in _PLAINER:
        text = re.sub(raw, plain, text)
    return text


class MainstemError(Exception):
    """Root of the tree. ``retriable``: whether the same request may succeed later, unchanged."""

    retriable = False


class InputError(MainstemError):
    """The caller's fault; the same request will fail again."""


class PositionFormatError(InputError):
    """Not a position's text form."""


class PositionError(InputError):
    """A position that this view or topic can never reach."""


class UnknownTopicError(InputError):
    """No such topic, or no such partition of it."""


class TopicExistsError(InputError):
    """A topic of that name exists already."""


class UnknownViewError(InputError):
    """No such view."""


class UnknownPipelineError(InputError):
    """No pipeline of this name has run on this log."""


class PipelineNotRunningError(InputError):
    """The App that runs the pipeline does not run, and the request needs it. Start it, then ask again."""


class UnknownGroupError(InputError):
    """No such group."""


class GroupNotEmptyError(InputError):
    """The group has members; it can be reset and deleted only without."""


class UnknownUserError(InputError):
    """The log has no user of this name."""


class UnknownTokenError(InputError):
    """The gateway's file has no token of this name."""


class TokenExistsError(InputError):
    """The gateway's file has a token of this name already."""


class UnknownRequestError(InputError):
    """No request has this id."""


class RequestExpiredError(InputError):
    """Retention has taken the request, or what would have been its reply."""


class UnknownTileError(InputError):
    """The tree of a verifiable topic has no such tile, or not so wide a one."""


class UnknownStreamError(InputError):
    """No such durable stream, or its time to live is over."""


class StreamConflictError(InputError):
    """A durable stream is there with another configuration, is closed, or takes other data or a later sequence."""


class StreamRemovedError(InputError):
    """A durable stream was deleted while forks of it exist, or the records at this offset were removed."""


class StaleProducerError(InputError):
    """A producer with a later epoch has written to this durable stream."""


class RecordTooLargeError(InputError):
    """A record or record batch over the topic's ``max.message.bytes``."""


class RecordListTooLargeError(RecordTooLargeError):
    """The batches of one append over the topic's ``segment.bytes``."""


class InvalidRecordError(InputError):
    """A record batch that is whole, but that this topic does not take.

    ``records`` says which of its records are at fault, by index, and why, where that is known.
    """

    def __init__(self, message: str, *, records: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.records = dict(records or {})


class ConditionFailedError(InvalidRecordError):
    """An append whose condition does not hold: nothing was appended. Read again, and decide again.

    ``condition`` is the name of the header that stated it; ``expected`` and ``actual`` are offsets.
    """

    def __init__(
        self, message: str, *, condition: str, expected: int, actual: int, records: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(message, records=records)
        self.condition = condition
        self.expected = expected
        self.actual = actual


class UnsupportedFeatureError(InputError):
    """The log, or the topic as it is configured, cannot do what was asked, and would not say so by itself."""


class InvalidTimestampError(InputError):
    """Timestamps outside the topic's bounds, or a timestamp type that only the log may set.

    ``records`` says which records are at fault, by index, and why, where that is known.
    """

    def __init__(self, message: str, *, records: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.records = dict(records or {})


class OffsetOutOfRangeError(InputError):
    """An offset before the log start offset or past the log end offset."""


class SchemaError(InputError):
    """A record, or a file's columns, do not fit the topic's schema."""


class MirrorRefusedError(InputError):
    """A target that cannot be, or is not, the copy of its source; the text names what is in the way."""


class HistoryRemovedError(InputError):
    """Retention has removed records that the request needs; another request may do without them."""


class ProofError(InputError):
    """A proof, a signature or a checkpoint does not hold: it is damaged, forged, or of another history."""


class QueryError(InputError):
    """A query that is wrong, would write, or went over its time or row limit."""


class DefinitionError(InputError):
    """An App declares something impossible, or declares it twice."""


class AuthenticationError(InputError):
    """Not who they say they are; the text never tells whether there is such a user."""


class AuthorizationError(InputError):
    """The user may not do this."""


class ConfigError(InputError):
    """A setting that does not exist, or a value out of its range."""


class ProtocolError(MainstemError):
    """The peer's bytes, or its answer, are not what the Kafka protocol asks for."""


class FrameError(ProtocolError):
    """A frame that cannot be read; nothing more can be read from its connection."""


class CorruptBatchError(ProtocolError):
    """A record batch whose length, magic, checksum or counts do not add up."""


class DamagedRecordsError(CorruptBatchError):
    """Offsets ``first_offset`` to ``last_offset`` of a partition are in the log and cannot be read.

    ``last_offset`` is None where the log does not say how far the damage goes: then no reader can step over it.
    """

    def __init__(
        self, topic_partition: TopicPartition, first_offset: int, last_offset: int | None, reason: str
    ) -> None:
        self.topic_partition = topic_partition
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.reason = reason
        advice = (
            "restore the partition's files from a copy, or step over these offsets: on_damaged=skip (Spark: onDamaged)"
            if last_offset is not None
            else "the log does not say how far the damage goes: restore the partition's files, or begin after it"
        )
        super().__init__(f"{self.offsets} cannot be read: {reason}; {advice}")

    @property
    def offsets(self) -> str:
        """The damaged offsets, as ``topic/partition:first-last``."""
        last = "" if self.last_offset is None else str(self.last_offset)
        return f"{self.topic_partition}:{self.first_offset}-{last}"

    def __len__(self) -> int:
        return 0 if self.last_offset is None else self.last_offset - self.first_offset + 1

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> tuple[type[DamagedRecordsError], tuple[TopicPartition, int, int | None, str]]:
        return type(self), (self.topic_partition, self.first_offset, self.last_offset, self.reason)


class ProducerError(ProtocolError):
    """An idempotent producer whose sequence, epoch or id the log refuses."""


class OutOfOrderSequenceError(ProducerError):
    """Records are missing before this batch, or it is too old to be recognised as a duplicate."""


class InvalidProducerEpochError(ProducerError):
    """A newer instance of the same producer has written since: this one is fenced."""


class ProducerFencedError(ProducerError):
    """Another producer took over the transactional id: this one's transaction is aborted, and it must be closed."""


class InvalidTransactionStateError(ProducerError):
    """The producer has a transaction open in this partition, and this write does not belong to it."""


class TransactionCoordinatorFencedError(ProducerError):
    """A newer transaction coordinator has written a marker for this producer: the older one's is refused."""


class RemoteError(ProtocolError):
    """The log answered with one of the protocol's error codes.

    ``code`` is Kafka's number, ``name`` Kafka's name for it, e.g. 3 and ``UNKNOWN_TOPIC_OR_PARTITION``.
    """

    def __init__(self, message: str, *, code: int, name: str, retriable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.retriable = retriable


class UnavailableError(MainstemError):
    """Temporarily unavailable: the same request may succeed later."""

    retriable = True


class LogUnavailableError(UnavailableError):
    """The log cannot be reached, or did not answer in time."""


class OutcomeUnknownError(LogUnavailableError):
    """An append was sent and its answer got lost: the log may have all of it, a part, or nothing."""

    retriable = False


class IndexNotReadyError(UnavailableError):
    """An index that the request needs is still being built from the log."""


class PositionTimeoutError(UnavailableError):
    """``at_least`` was not reached in time; carries what was asked, how far the view is, and what holds it back."""

    def __init__(
        self,
        message: str,
        *,
        wanted: Position,
        reached: Position,
        transactions: tuple[str, ...] = (),
        pipelines: tuple[str, ...] = (),
    ) -> None:
        """``transactions``: those that are open before what was asked, as far as the log tells.

        ``pipelines``: those in between that do not work, each with its status and its last error.
        """
        super().__init__(message)
        self.wanted = wanted
        self.reached = reached
        self.transactions = transactions
        self.pipelines = pipelines


class TransactionTimeoutError(UnavailableError):
    """A transaction took longer than its time-out: the log has aborted it, and nothing of it counts."""


class ViewStoppedError(UnavailableError):
    """A view stopped applying; the text says why and what to do."""

    retriable = False


class PipelineFailedError(UnavailableError):
    """A pipeline's query failed; the text says why. It goes on from its checkpoint when it is started again."""

    retriable = False


class RequestFailedError(UnavailableError):
    """The worker that took a request has replied that it failed; the text is the worker's."""

    retriable = False


class PartitionOfflineError(UnavailableError):
    """A partition refuses writes until the log restarts and recovers, because its disk failed once."""


class MachineError(MainstemError):
    """Something on this machine is missing or in the way."""


class DirectoryLockedError(MachineError):
    """Another process owns the data directory."""


class StorageError(MachineError):
    """The disk refused a read or write: permission, space, or an input/output error."""


class DamagedTreeError(StorageError):
    """The tree of a verifiable partition is damaged or lost: nothing is signed until its files are restored."""


class AddressInUseError(MachineError):
    """The port is taken."""


class MissingDependencyError(MachineError):
    """Java, an extra or a data package is not installed; the text says how to install it."""
