"""One table between the error tree and HTTP problems (RFC 9457), used in both directions.

The gateway writes errors as problem documents, ``mainstem.client.http.views`` reads them back: an error behind the
gateway is raised as the same class in the caller's program. A problem's ``type`` is ``/problems/<slug>``; the slug is
the class's name without ``Error`` in kebab case. An error whose class is not in the table (a package's own subclass)
goes by its nearest ancestor that is.

Stateless; safe from any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mainstem import errors
from mainstem.errors import (
    ConditionFailedError,
    DamagedRecordsError,
    MainstemError,
    PositionTimeoutError,
    RemoteError,
)
from mainstem.model import Position, TopicPartition

CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "/problems/"


class _Problem(NamedTuple):
    """The HTTP form of one class of errors."""

    slug: str
    status: int
    title: str


_PROBLEMS: dict[type[MainstemError], _Problem] = {
    errors.MainstemError: _Problem("mainstem", 500, "Error"),
    errors.InputError: _Problem("input", 400, "Invalid request"),
    errors.PositionFormatError: _Problem("position-format", 400, "Invalid position"),
    errors.PositionError: _Problem("position", 400, "Unreachable position"),
    errors.UnknownTopicError: _Problem("unknown-topic", 404, "No such topic"),
    errors.TopicExistsError: _Problem("topic-exists", 409, "The topic exists already"),
    errors.UnknownViewError: _Problem("unknown-view", 404, "No such view"),
    errors.UnknownPipelineError: _Problem("unknown-pipeline", 404, "No such pipeline"),
    errors.PipelineNotRunningError: _Problem("pipeline-not-running", 409, "The pipeline does not run"),
    errors.UnknownGroupError: _Problem("unknown-group", 404, "No such group"),
    errors.GroupNotEmptyError: _Problem("group-not-empty", 409, "The group has members"),
    errors.UnknownUserError: _Problem("unknown-user", 404, "No such user"),
    errors.UnknownTokenError: _Problem("unknown-token", 404, "No such token"),
    errors.TokenExistsError: _Problem("token-exists", 409, "The token exists already"),
    errors.UnknownRequestError: _Problem("unknown-request", 404, "No such request"),
    errors.RequestExpiredError: _Problem("request-expired", 410, "The request is too old"),
    errors.UnknownTileError: _Problem("unknown-tile", 404, "No such tile"),
    errors.UnknownStreamError: _Problem("unknown-stream", 404, "No such stream"),
    errors.StreamConflictError: _Problem("stream-conflict", 409, "The stream does not take this"),
    errors.StreamRemovedError: _Problem("stream-removed", 410, "The stream, or this part of it, was removed"),
    errors.StaleProducerError: _Problem("stale-producer", 403, "A later producer has written"),
    errors.RecordTooLargeError: _Problem("record-too-large", 413, "The record is too large"),
    errors.RecordListTooLargeError: _Problem("record-list-too-large", 413, "The records are too large"),
    errors.InvalidRecordError: _Problem("invalid-record", 422, "Record refused by the topic"),
    errors.ConditionFailedError: _Problem("condition-failed", 412, "The condition does not hold"),
    errors.UnsupportedFeatureError: _Problem("unsupported-feature", 409, "Unsupported feature"),
    errors.InvalidTimestampError: _Problem("invalid-timestamp", 422, "Timestamp out of bounds"),
    errors.OffsetOutOfRangeError: _Problem("offset-out-of-range", 416, "No such offset"),
    errors.SchemaError: _Problem("schema", 422, "Value does not fit the schema"),
    errors.MirrorRefusedError: _Problem("mirror-refused", 409, "The mirror is refused"),
    errors.HistoryRemovedError: _Problem("history-removed", 409, "History removed"),
    errors.ProofError: _Problem("proof", 422, "The proof does not hold"),
    errors.QueryError: _Problem("query", 400, "Invalid query"),
    errors.DefinitionError: _Problem("definition", 422, "Invalid definition"),
    errors.AuthenticationError: _Problem("authentication", 401, "Authentication failed"),
    errors.AuthorizationError: _Problem("authorization", 403, "Not authorized"),
    errors.ConfigError: _Problem("config", 400, "Invalid setting"),
    errors.ProtocolError: _Problem("protocol", 502, "Protocol error"),
    errors.FrameError: _Problem("frame", 502, "Unreadable frame"),
    errors.CorruptBatchError: _Problem("corrupt-batch", 502, "A record batch is damaged"),
    errors.DamagedRecordsError: _Problem("damaged-records", 502, "Records in the log are damaged"),
    errors.ProducerError: _Problem("producer", 409, "The log refuses this producer"),
    errors.InvalidTransactionStateError: _Problem("invalid-transaction-state", 409, "The log refuses this producer"),
    errors.TransactionCoordinatorFencedError: _Problem(
        "transaction-coordinator-fenced", 409, "The log refuses this producer"
    ),
    errors.ProducerFencedError: _Problem("producer-fenced", 409, "Another producer has taken over"),
    errors.TransactionTimeoutError: _Problem("transaction-timeout", 503, "The transaction took too long"),
    errors.OutOfOrderSequenceError: _Problem("out-of-order-sequence", 409, "The log refuses this producer"),
    errors.InvalidProducerEpochError: _Problem("invalid-producer-epoch", 409, "The log refuses this producer"),
    errors.RemoteError: _Problem("remote", 502, "The log returned an error"),
    errors.UnavailableError: _Problem("unavailable", 503, "Temporarily unavailable"),
    errors.LogUnavailableError: _Problem("log-unavailable", 503, "The log cannot be reached"),
    errors.OutcomeUnknownError: _Problem("outcome-unknown", 504, "Unknown outcome"),
    errors.IndexNotReadyError: _Problem("index-not-ready", 503, "An index is being built"),
    errors.PositionTimeoutError: _Problem("position-timeout", 504, "The position was not reached in time"),
    errors.ViewStoppedError: _Problem("view-stopped", 503, "The view has stopped"),
    errors.PipelineFailedError: _Problem("pipeline-failed", 503, "A pipeline has failed"),
    errors.RequestFailedError: _Problem("request-failed", 502, "The worker could not answer"),
    errors.PartitionOfflineError: _Problem("partition-offline", 503, "The partition refuses writes"),
    errors.MachineError: _Problem("machine", 500, "Server error"),
    errors.DirectoryLockedError: _Problem("directory-locked", 500, "The data directory is in use"),
    errors.StorageError: _Problem("storage", 500, "Storage error"),
    errors.DamagedTreeError: _Problem("damaged-tree", 500, "The tree of a verifiable topic is damaged"),
    errors.AddressInUseError: _Problem("address-in-use", 500, "The address is in use"),
    errors.MissingDependencyError: _Problem("missing-dependency", 501, "Missing dependency"),
}
_CLASSES = {problem.slug: error_class for error_class, problem in _PROBLEMS.items()}


class ProblemType(NamedTuple):
    """A type of problem for its page: the error class's first line says when it comes."""

    slug: str
    status: int
    title: str
    meaning: str


def problem_classes() -> list[type[MainstemError]]:
    """Every class of errors that has a type of problem."""
    return list(_PROBLEMS)


def members_of(error: MainstemError) -> dict[str, Any]:
    """The extension members: what an error carries besides its text, in JSON's types."""
    if isinstance(error, PositionTimeoutError):
        positions: dict[str, Any] = {"wanted": str(error.wanted), "reached": str(error.reached)}
        causes = {"transactions": list(error.transactions), "pipelines": list(error.pipelines)}
        return positions | {name: found for name, found in causes.items() if found}
    if isinstance(error, ConditionFailedError):
        return {"condition": error.condition, "expected": error.expected, "actual": error.actual}
    if isinstance(error, DamagedRecordsError):
        place = {"topic": error.topic_partition.topic, "partition": error.topic_partition.partition}
        return {**place, "first_offset": error.first_offset, "last_offset": error.last_offset, "reason": error.reason}
    if isinstance(error, RemoteError):
        return {"code": error.code, "name": error.name, "retriable": error.retriable}
    return {}


def problem_of(error: MainstemError) -> dict[str, Any]:
    """The whole problem document of ``error``; ``error_from_problem`` is its inverse."""
    found = problem_type(type(error))
    return {
        "type": TYPE_PREFIX + found.slug,
        "title": found.title,
        "status": found.status,
        "detail": str(error),
        **members_of(error),
    }


def error_from_problem(document: Mapping[str, Any]) -> MainstemError:
    """The error of a problem document, ready to be raised.

    A ``type`` that is not in the table gives a plain MainstemError with the document's text, so that an older client
    still shows what a newer gateway says.
    """
    slug = str(document.get("type", "")).rstrip("/").rpartition("/")[2]
    text = str(document.get("detail") or document.get("title") or f"HTTP status {document.get('status', 'unknown')}")
    error_class = _CLASSES.get(slug, MainstemError)
    if error_class is PositionTimeoutError:
        wanted, reached = (Position.parse(str(document.get(name, ""))) for name in ("wanted", "reached"))
        transactions, pipelines = (tuple(map(str, document.get(name) or ())) for name in ("transactions", "pipelines"))
        return PositionTimeoutError(
            text, wanted=wanted, reached=reached, transactions=transactions, pipelines=pipelines
        )
    if error_class is ConditionFailedError:
        expected, actual = (int(document.get(name, -1)) for name in ("expected", "actual"))
        condition = str(document.get("condition", ""))
        return ConditionFailedError(text, condition=condition, expected=expected, actual=actual)
    if error_class is DamagedRecordsError:
        tp = TopicPartition(str(document.get("topic", "")), int(document.get("partition", -1)))
        last = document.get("last_offset")
        first, reason = int(document.get("first_offset", -1)), str(document.get("reason", ""))
        return DamagedRecordsError(tp, first, None if last is None else int(last), reason)
    if error_class is RemoteError:
        code, name = int(document.get("code", -1)), str(document.get("name", "UNKNOWN_SERVER_ERROR"))
        return RemoteError(text, code=code, name=name, retriable=bool(document.get("retriable", False)))
    return error_class(text)


def problem_type(error_class: type[MainstemError]) -> ProblemType:
    """The type of problem for the errors of a class: its own, or that of its nearest ancestor in the table."""
    found = next(_PROBLEMS[ancestor] for ancestor in error_class.__mro__ if ancestor in _PROBLEMS)
    return ProblemType(*found, (error_class.__doc__ or "").partition("\n")[0])
