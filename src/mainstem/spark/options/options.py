"""The options of the ``mainstem`` data source, in the words of Spark's own Kafka connector.

Every option that is given is either understood or refused with the list of those that are: a setting that does nothing
would be found out too late. Names are taken in any case, as Spark hands them over. Immutable values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mainstem.client.security import Security
from mainstem.errors import ConfigError
from mainstem.model import is_topic_name
from mainstem.schema.types import ENCODINGS, TopicSchema
from mainstem.spark.options.security_options import NAMES as SECURITY_NAMES
from mainstem.spark.options.security_options import security_of

BOOTSTRAP = "kafka.bootstrap.servers"
REGISTERED = "registered"
"""The value of ``valueSchema`` that selects the topic's registered schema."""

COMMON_OPTIONS = (BOOTSTRAP, "kafka.client.id", "kafka.request.timeout.ms", *SECURITY_NAMES)
WRITE_OPTIONS = (
    "topic",
    "pipeline",
    "keyColumn",
    "keyFormat",
    "valueFormat",
    "valueSubject",
    "framing",
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
# Of Spark's connector and of Kafka's consumer: what they ask for is done otherwise here.
_HINTS = {
    "kafka.auto.offset.reset": "say where to start by startingOffsets",
    "kafka.enable.auto.commit": "offsets are committed after each micro-batch; commitOffsets=false turns that off",
    "kafka.key.deserializer": "keys are bytes; cast the column",
    "kafka.value.deserializer": "values are bytes, or typed by valueSchema",
    "kafka.interceptor.classes": "interceptors are not supported",
    "kafka.max.poll.records": "limit a micro-batch by maxOffsetsPerTrigger",
    "kafkaconsumer.polltimeoutms": "kafka.request.timeout.ms bounds each wait",
    "fetchoffset.numretries": "what may heal is tried again until kafka.request.timeout.ms is over",
    "fetchoffset.retryintervalms": "what may heal is tried again until kafka.request.timeout.ms is over",
}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How to reach the log. Hashable; what is secret in ``security`` shows in no text form of it."""

    bootstrap: str
    client_id: str = "mainstem-spark"
    timeout_s: float = 30.0
    security: Security = field(default_factory=Security.from_environment)


@dataclass(frozen=True, slots=True)
class RowFormats:
    """How rows become keys and values (``keyColumn``). None: as the topic's registered schema has it, else as JSON.

    ``subject`` is that of the values' schema; None: ``TOPIC-value``. ``framing``: where values name their schema; None:
    as the topic says.
    ``columns`` are the rows' own, where an encoding was asked for.
    """

    key: str | None = None
    value: str | None = None
    subject: str | None = None
    framing: str | None = None
    columns: TopicSchema | None = None

    @property
    def is_encoded(self) -> bool:
        """Whether an encoding was asked for."""
        return self.key in ENCODINGS or self.value in ENCODINGS

    @classmethod
    def parse(cls, given: Given) -> RowFormats:
        """Raises ConfigError, which names the option that is wrong."""
        found = {}
        for option, plain in (("keyFormat", "text"), ("valueFormat", "json")):
            form = given.get(option)
            if form is not None and form.lower() not in (plain, *ENCODINGS):
                known = ", ".join((plain, *ENCODINGS))
                raise ConfigError(f"option {option}: unknown format {form!r}: use one of {known}")
            found[option] = None if form is None else form.lower()
        framing = given.choice("framing", ("ID", "GUID", "HEADER")).lower() if given.get("framing") else None
        for option in ("keyFormat", "valueFormat", "valueSubject", "framing"):
            if given.get(option) is not None and not given.get("keyColumn"):
                raise ConfigError(
                    f"option {option} needs the option keyColumn: without it values are written as they are"
                )
        return cls(found["keyFormat"], found["valueFormat"], given.get("valueSubject"), framing)


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
    key_columns: tuple[str, ...] = ()
    """With them rows of any columns are written: these as the key, all of them as the value."""
    formats: RowFormats = field(default_factory=RowFormats)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Raises ConfigError, which names the option that is wrong."""
        given = Given(options, "writing", (*COMMON_OPTIONS, *WRITE_OPTIONS))
        topic = given.get("topic")
        if topic is not None and not is_topic_name(topic):
            raise ConfigError(f"option topic: invalid topic name {topic!r}")
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
            key_columns=tuple(part.strip() for part in (given.get("keyColumn") or "").split(",") if part.strip()),
            formats=RowFormats.parse(given),
        )


class Given:
    """The options as they came, by their names in any case."""

    def __init__(
        self, options: Mapping[str, str], purpose: str, known: Sequence[str], others: Sequence[str] = ()
    ) -> None:
        """``known`` are the options for this ``purpose``, ``others`` those for another one.

        Raises ConfigError for an option that is not known, with what was meant, as far as that can be guessed.
        """
        self._options = {name.lower(): value for name, value in options.items()}
        allowed = {name.lower() for name in (*known, *_SPARKS)}
        unknown = sorted(name for name in self._options if name not in allowed)
        if unknown:
            raise ConfigError("; ".join(_unknown(name, purpose, known, others) for name in unknown))

    @property
    def names_given(self) -> frozenset[str]:
        """In lower case."""
        return frozenset(self._options)

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
                raise ConfigError(f"option {name}: invalid topic name {topic!r}")
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
            raise ConfigError(f"option {name}: invalid value {value!r}: use one of {', '.join(choices)}")
        return value


def _unknown(name: str, purpose: str, known: Sequence[str], others: Sequence[str]) -> str:
    if name in _HINTS:
        return f"option {name} is not taken: {_HINTS[name]}"
    if name in {other.lower() for other in others}:
        return f"option {name} is not for {purpose}; remove it"
    spelled = {option.lower(): option for option in known}
    close = difflib.get_close_matches(name, spelled, 1)
    meant = f" (did you mean {spelled[close[0]]}?)" if close else ""
    return f"unknown option {name}{meant}; for {purpose} there are {', '.join(known)}"


def _write_id(text: str | None) -> str | None:
    if text is not None and not _WRITE_ID.fullmatch(text):
        raise ConfigError(f"option writeId: {text!r} has other characters than letters, digits, '.', '_' and '-'")
    return text


def _write_version(given: Given) -> int:
    text = given.get("writeVersion")
    if text is None:
        return 0
    if given.get("writeId") is None:
        raise ConfigError("option writeVersion counts the writes under a name: give the option writeId, too")
    if not text.isdecimal():
        raise ConfigError(f"option writeVersion: invalid number {text!r}: use 0 or more")
    return int(text)
