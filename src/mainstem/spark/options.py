"""The options of the ``mainstem`` data source, in the words of Spark's own Kafka connector.

Every option that is given is either understood or refused with the list of those that are: a setting that does nothing
would be found out too late. Names are taken in any case, as Spark hands them over. Immutable values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mainstem.client.security import Security
from mainstem.client.wire.cluster import EARLIEST, LATEST, Isolation
from mainstem.errors import ConfigError
from mainstem.model import TopicPartition, is_topic_name
from mainstem.spark.columns import RECORD_COLUMNS
from mainstem.spark.security_options import NAMES as SECURITY_NAMES
from mainstem.spark.security_options import security_of
from mainstem.spark.value_options import VALUE_OPTIONS, ValueOptions

BOOTSTRAP = "kafka.bootstrap.servers"
REGISTERED = "registered"
"""The value of ``valueSchema`` that stands for the topic's registered schema."""

_COMMON = (BOOTSTRAP, "kafka.client.id", "kafka.request.timeout.ms", *SECURITY_NAMES)
_READ = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "valueSchema",
    "mode",
    "table",
    "tables",
    "kafka.isolation.level",
    *VALUE_OPTIONS,
)
_WRITE = (
    "topic",
    "pipeline",
    "deliveryGuarantee",
    "writeId",
    "writeVersion",
    "kafka.compression.type",
    "kafka.max.request.size",
    "kafka.transaction.timeout.ms",
)
_GUARANTEES = ("EXACTLY_ONCE", "AT_LEAST_ONCE")
_WRITE_ID = re.compile(r"[A-Za-z0-9._-]{1,150}")
# Spark's own, which it hands over with the others.
_SPARKS = ("path", "checkpointLocation", "queryName", "__spark_internal_unused")
_KNOWN = frozenset(name.lower() for name in (*_COMMON, *_READ, *_WRITE, *_SPARKS))
_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")

OffsetSpec = int | dict[TopicPartition, int]
"""EARLIEST, LATEST, a time in milliseconds (as list-offsets has it), or offsets of single partitions."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How to reach the log. Hashable; what is secret in ``security`` shows in no text form of it."""

    bootstrap: str
    client_id: str = "mainstem-spark"
    timeout_s: float = 30.0
    security: Security = field(default_factory=Security.from_environment)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read. Of ``topics``, ``pattern`` and ``assigned``, one is given."""

    log: LogOptions
    topics: tuple[str, ...]
    pattern: str | None
    assigned: frozenset[TopicPartition]
    starting: OffsetSpec | None
    ending: OffsetSpec | None
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...] | None
    value_schema: str | None
    mode: str
    as_table: bool
    tables: tuple[str, ...]
    checkpoint: str | None
    isolation: Isolation
    values: ValueOptions

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Raises ConfigError, which names the option that is wrong."""
        given = _Given(options)
        log, topics = given.log(), given.names("subscribe")
        pattern, assigned = given.get("subscribePattern"), _assigned(given.get("assign"))
        if sum((bool(topics), pattern is not None, bool(assigned))) != 1:
            raise ConfigError("say what to read by one of the options subscribe, subscribePattern and assign")
        value_schema, as_table = given.get("valueSchema"), given.flag("table", default=False)
        if as_table and value_schema is None:
            raise ConfigError("option table=true needs the option valueSchema (DDL, or: registered)")
        return cls(
            log=log,
            topics=topics,
            pattern=_pattern(pattern),
            assigned=assigned,
            starting=_starting(given),
            ending=_offsets(given.get("endingOffsets"), "endingOffsets"),
            max_offsets_per_trigger=given.count("maxOffsetsPerTrigger"),
            min_partitions=given.count("minPartitions"),
            fail_on_data_loss=given.flag("failOnDataLoss", default=True),
            columns=_columns(given),
            value_schema=value_schema,
            mode=given.choice("mode", _MODES),
            as_table=as_table,
            tables=given.names("tables"),
            checkpoint=given.get("checkpointLocation"),
            isolation=_isolation(given.get("kafka.isolation.level")),
            values=ValueOptions.parse(given.get),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write. ``topic`` may be left out when the rows have a column ``topic``."""

    log: LogOptions
    topic: str | None
    pipeline: str | None
    checkpoint: str | None
    compression: str
    batch_bytes_max: int | None
    is_exactly_once: bool = True
    write_id: str | None = None
    """Names a batch write, so that it counts once however often it is run."""
    write_version: int = 0
    transaction_timeout_ms: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Raises ConfigError, which names the option that is wrong."""
        given = _Given(options)
        topic = given.get("topic")
        if topic is not None and not is_topic_name(topic):
            raise ConfigError(f"option topic: {topic!r} is no topic's name")
        return cls(
            log=given.log(),
            topic=topic,
            pipeline=given.get("pipeline"),
            checkpoint=given.get("checkpointLocation"),
            compression=given.get("kafka.compression.type") or "none",
            batch_bytes_max=given.count("kafka.max.request.size"),
            is_exactly_once=given.choice("deliveryGuarantee", _GUARANTEES) == "EXACTLY_ONCE",
            write_id=_write_id(given.get("writeId")),
            write_version=_write_version(given),
            transaction_timeout_ms=given.count("kafka.transaction.timeout.ms"),
        )


class _Given:
    """The options as they came, by their names in any case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        unknown = sorted(name for name in self._options if name not in _KNOWN)
        if unknown:
            raise ConfigError(
                f"unknown option {', '.join(unknown)}; for reading there are {', '.join((*_COMMON, *_READ))}; "
                f"for writing {', '.join((*_COMMON, *_WRITE))}"
            )

    def get(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def log(self) -> LogOptions:
        bootstrap = self.get(BOOTSTRAP)
        if not bootstrap:
            raise ConfigError(f"option {BOOTSTRAP} is missing; give the log's address, e.g. localhost:9092")
        timeout_ms = self.count("kafka.request.timeout.ms") or 30_000
        return LogOptions(
            bootstrap, self.get("kafka.client.id") or "mainstem-spark", timeout_ms / 1000, security_of(self._options)
        )

    def names(self, name: str) -> tuple[str, ...]:
        names = tuple(part.strip() for part in (self.get(name) or "").split(",") if part.strip())
        for topic in names:
            if not is_topic_name(topic):
                raise ConfigError(f"option {name}: {topic!r} is no topic's name")
        return names

    def count(self, name: str) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        if not text.isdecimal() or int(text) == 0:
            raise ConfigError(f"option {name}: {text!r} is not a number above 0")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = (self.get(name) or str(default)).lower()
        if text not in ("true", "false"):
            raise ConfigError(f"option {name}: {text!r} is neither true nor false")
        return text == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = (self.get(name) or choices[0]).upper()
        if value not in choices:
            raise ConfigError(f"option {name}: {value!r} is none of {', '.join(choices)}")
        return value


def _write_id(text: str | None) -> str | None:
    if text is not None and not _WRITE_ID.fullmatch(text):
        raise ConfigError(f"option writeId: {text!r} has other characters than letters, digits, '.', '_' and '-'")
    return text


def _write_version(given: _Given) -> int:
    text = given.get("writeVersion")
    if text is None:
        return 0
    if given.get("writeId") is None:
        raise ConfigError("option writeVersion counts the writes under a name: give the option writeId, too")
    if not text.isdecimal():
        raise ConfigError(f"option writeVersion: {text!r} is no number from 0 on")
    return int(text)


def _starting(given: _Given) -> OffsetSpec | None:
    timestamp = given.get("startingTimestamp")
    if timestamp is None:
        return _offsets(given.get("startingOffsets"), "startingOffsets")
    if not timestamp.isdecimal():
        raise ConfigError(f"option startingTimestamp: {timestamp!r} is not milliseconds since 1970")
    return int(timestamp)


def _offsets(text: str | None, name: str) -> OffsetSpec | None:
    if text is None:
        return None
    if text.strip().lower() in ("earliest", "latest"):
        return EARLIEST if text.strip().lower() == "earliest" else LATEST
    try:
        document = json.loads(text)
        offsets = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in document.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f'option {name}: {text!r} is neither earliest, latest nor JSON such as {{"flights":{{"0":17,"1":-2}}}}'
        ) from error
    for tp, offset in offsets.items():
        if offset < EARLIEST:
            raise ConfigError(f"option {name}: {tp} has {offset}; -2 is earliest, -1 latest, others are offsets")
    return offsets


def _assigned(text: str | None) -> frozenset[TopicPartition]:
    if text is None:
        return frozenset()
    try:
        document = json.loads(text)
        return frozenset(TopicPartition(topic, int(p)) for topic, partitions in document.items() for p in partitions)
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f'option assign: {text!r} is not JSON such as {{"flights":[0,1]}}') from error


def _pattern(text: str | None) -> str | None:
    if text is not None:
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(f"option subscribePattern: {text!r} is no regular expression: {error}") from error
    return text


def _columns(given: _Given) -> tuple[str, ...] | None:
    names = given.get("columns")
    if names is None:
        with_headers = given.flag("includeHeaders", default=True)
        return None if with_headers else tuple(name for name in RECORD_COLUMNS if name != "headers")
    chosen = tuple(part.strip() for part in names.split(",") if part.strip())
    _require_known(chosen)
    return chosen


def _require_known(columns: Iterable[str]) -> None:
    unknown = [name for name in columns if name not in RECORD_COLUMNS]
    if unknown:
        raise ConfigError(f"option columns: no {', '.join(unknown)}; there are {', '.join(RECORD_COLUMNS)}")


def _isolation(text: str | None) -> Isolation:
    if text in (None, "read_committed"):
        return Isolation.READ_COMMITTED
    if text == "read_uncommitted":
        return Isolation.READ_UNCOMMITTED
    raise ConfigError(f"option kafka.isolation.level: {text!r} is neither read_committed nor read_uncommitted")
