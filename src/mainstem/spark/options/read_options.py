"""The options of a read, in the words of Spark's own Kafka connector, and a few more of ours.

``READ_OPTIONS`` names each of them; docs/spark/options.md says what each means, and a test holds the two to each other.
Options that contradict each other are refused.
Immutable values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, Isolation
from mainstem.errors import ConfigError
from mainstem.model import OnDamaged, TopicPartition, is_topic_name
from mainstem.spark.options.columns import OFFERED_COLUMNS, RECORD_COLUMNS
from mainstem.spark.options.options import COMMON_OPTIONS, WRITE_OPTIONS, Given, LogOptions
from mainstem.spark.options.value_options import AVRO, VALUE_OPTIONS, ValueOptions

READ_OPTIONS = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "failOnDataLoss",
    "onDamaged",
    "kafka.group.id",
    "groupIdPrefix",
    "commitOffsets",
    "includeHeaders",
    "columns",
    "valueSchema",
    "mode",
    "table",
    "tables",
    "kafka.isolation.level",
    "localReads",
    *VALUE_OPTIONS,
)
_OF_STREAMS = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_OF_BATCHES = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
GROUP_PREFIX = "mainstem-spark"
_TRIGGER_DELAY_S = 15 * 60.0
_DURATION = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class At:
    """EARLIEST or LATEST of every partition. ``option`` is the one that said so."""

    option: str
    symbol: int


@dataclass(frozen=True, slots=True)
class ByOffset:
    """An offset for each partition, EARLIEST and LATEST among them."""

    option: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ByTime:
    """The first record at or after a time, in milliseconds: one time for all partitions, or one for each."""

    option: str
    everywhere_ms: int | None
    times_ms: Mapping[TopicPartition, int]

    def time_ms(self, tp: TopicPartition) -> int:
        return self.times_ms[tp] if self.everywhere_ms is None else self.everywhere_ms


Bound: TypeAlias = At | ByOffset | ByTime


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much a micro-batch reads. ``bytes_max`` is of record batches as they lie in the log."""

    offsets_max: int | None = None
    bytes_max: int | None = None
    offsets_min: int | None = None
    delay_s_max: float = _TRIGGER_DELAY_S


@dataclass(frozen=True, slots=True)
class Splits:
    """How a read is cut into tasks: at least so many, none with more records or bytes than that."""

    partitions_min: int | None = None
    records_max: int | None = None
    bytes_max: int | None = None

    @property
    def is_given(self) -> bool:
        return (self.partitions_min, self.records_max, self.bytes_max) != (None, None, None)


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """The consumer group that a stream's offsets are committed to; ``name`` None: one of its own, by ``prefix``."""

    name: str | None = None
    prefix: str = GROUP_PREFIX
    commits: bool = True


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read. Of ``topics``, ``pattern`` and ``assigned``, one is given."""

    log: LogOptions
    topics: tuple[str, ...]
    pattern: str | None
    assigned: frozenset[TopicPartition]
    starting: Bound | None
    ending: Bound | None
    fails_without_match: bool
    limits: ReadLimits
    splits: Splits
    group: GroupOptions
    fail_on_data_loss: bool
    skips_damaged: bool
    columns: tuple[str, ...] | None
    value_schema: str | None
    mode: str
    as_table: bool
    tables: tuple[str, ...]
    checkpoint: str | None
    isolation: Isolation
    reads_files: bool
    values: ValueOptions
    given: frozenset[str]
    """The names of the options that were given, in lower case."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Raises ConfigError, which names the option that is wrong."""
        given = Given(options, "reading", (*COMMON_OPTIONS, *READ_OPTIONS), WRITE_OPTIONS)
        log = given.log()
        _one_of(given, _SUBSCRIPTIONS, "what to read", required=True)
        values = ValueOptions.parse(given.get)
        value_schema = AVRO if values.is_avro else given.get("valueSchema")
        as_table = given.flag("table", default=False)
        if as_table and value_schema is None:
            raise ConfigError("option table=true needs the option valueSchema (DDL, or: registered)")
        return cls(
            log=log,
            topics=_topics(given),
            pattern=_pattern(given.get("subscribePattern")),
            assigned=_assigned(given.get("assign")),
            starting=_bound(given, "starting"),
            ending=_bound(given, "ending"),
            fails_without_match=given.choice("startingOffsetsByTimestampStrategy", ("ERROR", "LATEST")) == "ERROR",
            limits=_limits(given),
            splits=Splits(*map(given.count, ("minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition"))),
            group=_group(given),
            fail_on_data_loss=given.flag("failOnDataLoss", default=True),
            skips_damaged=given.choice("onDamaged", ("STOP", "SKIP")) == "SKIP",
            columns=_columns(given),
            value_schema=value_schema,
            mode=given.choice("mode", _MODES),
            as_table=as_table,
            tables=given.names("tables"),
            checkpoint=given.get("checkpointLocation"),
            isolation=_isolation(given.get("kafka.isolation.level")),
            reads_files=given.choice("localReads", ("AUTO", "OFF")) == "AUTO",
            values=values,
            given=given.names_given,
        )._checked()

    @property
    def on_damaged(self) -> OnDamaged:
        """The client's word for it."""
        return "skip" if self.skips_damaged else "stop"

    def require_stream(self) -> None:
        """Raises ConfigError for what only a batch read can do."""
        if self.as_table:
            raise ConfigError("option table=true: a table is read by spark.read, not as a stream")
        for name in _OF_BATCHES:
            if name.lower() in self.given:
                raise ConfigError(
                    f"option {name} is for batch reads: a stream has no end; remove it, or use spark.read"
                )

    def require_batch(self) -> None:
        """Raises ConfigError for what only a stream can do, and for a read of nothing."""
        for name in _OF_STREAMS:
            if name.lower() in self.given:
                raise ConfigError(f"option {name} is for streams: a batch read has no micro-batches; remove it")
        _refuse_symbol(self.starting, LATEST, "a batch read that starts at the end (latest, -1) reads nothing")
        _refuse_symbol(self.ending, EARLIEST, "a batch read that ends at the start (earliest, -2) reads nothing")

    def _checked(self) -> ReadOptions:
        limits = self.limits
        if limits.offsets_min is not None and limits.offsets_min > (limits.offsets_max or limits.offsets_min):
            raise ConfigError(
                f"option minOffsetsPerTrigger ({limits.offsets_min}) is above maxOffsetsPerTrigger "
                f"({limits.offsets_max}): no micro-batch could be both"
            )
        if isinstance(self.starting, ByOffset) and isinstance(self.ending, ByOffset):
            _require_order(self.starting, self.ending)
        if isinstance(self.starting, ByTime) and isinstance(self.ending, ByTime):
            start, end = self.starting.everywhere_ms, self.ending.everywhere_ms
            if start is not None and end is not None and start > end:
                raise ConfigError(
                    f"option {self.starting.option} ({start}) is after {self.ending.option} ({end}): swap them"
                )
        return self


def _require_order(starting: ByOffset, ending: ByOffset) -> None:
    for tp, start in starting.offsets.items():
        end = ending.offsets.get(tp, LATEST)
        if 0 <= end < start:
            raise ConfigError(f"option {starting.option}: {tp} has {start}, after its {ending.option} of {end}")


def _refuse_symbol(bound: Bound | None, symbol: int, why: str) -> None:
    if isinstance(bound, At) and bound.symbol == symbol:
        raise ConfigError(f"option {bound.option}: {why}")
    if isinstance(bound, ByOffset):
        for tp, offset in bound.offsets.items():
            if offset == symbol:
                raise ConfigError(f"option {bound.option}: {tp} has {offset}; {why}")


def _one_of(given: Given, names: Iterable[str], what: str, *, required: bool = False) -> str | None:
    """The one of the options that is given."""
    found = [name for name in names if given.get(name) is not None]
    if len(found) > 1 or (required and not found):
        got = f", not by {' and '.join(found)} together" if found else ""
        raise ConfigError(f"say {what} by one of the options {', '.join(names)}{got}")
    return found[0] if found else None


def _topics(given: Given) -> tuple[str, ...]:
    topics = given.names("subscribe")
    if given.get("subscribe") is not None and not topics:
        raise ConfigError("option subscribe: there is no topic in it; give names, with commas between them")
    return topics


def _bound(given: Given, side: str) -> Bound | None:
    by_offset, by_time, by_times = f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp"
    option = _one_of(given, (by_offset, by_time, by_times), f"the {side} offsets")
    text = given.get(option) if option is not None else None
    if option is None or text is None:
        return None
    if option == by_time:
        if not text.isdecimal():
            raise ConfigError(f"option {option}: {text!r} is not milliseconds since 1970")
        return ByTime(option, int(text), {})
    if option == by_times:
        times = _by_partition(text, option, '{"flights":{"0":1700000000000,"1":1700000000000}}, in milliseconds')
        return ByTime(option, None, _not_below(times, 0, option, "times are milliseconds since 1970"))
    if text.strip().lower() in ("earliest", "latest"):
        return At(option, EARLIEST if text.strip().lower() == "earliest" else LATEST)
    offsets = _by_partition(text, option, '{"flights":{"0":17,"1":-2}}', "earliest, latest")
    return ByOffset(option, _not_below(offsets, EARLIEST, option, "-2 is earliest, -1 latest, others are offsets"))


def _by_partition(text: str, option: str, example: str, words: str | None = None) -> dict[TopicPartition, int]:
    """A number for each partition, from ``{topic: {partition: number}}``."""
    try:
        document: dict[str, dict[str, Any]] = json.loads(text)
        numbers = {
            TopicPartition(topic, int(partition)): _whole(number)
            for topic, partitions in document.items()
            for partition, number in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        said = f"neither {words} nor JSON" if words else "not JSON"
        raise ConfigError(f"option {option}: {text!r} is {said} such as {example}") from error
    if not numbers:
        raise ConfigError(f"option {option}: {text!r} names no partition; write e.g. {example}")
    return numbers


def _whole(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{number!r} is not a whole number")
    return number


def _not_below(numbers: dict[TopicPartition, int], least: int, option: str, meaning: str) -> dict[TopicPartition, int]:
    for tp, number in numbers.items():
        if not is_topic_name(tp.topic) or not 0 <= tp.partition < 2**31:
            raise ConfigError(f"option {option}: {tp} is not a partition of a topic")
        if not least <= number < 2**63:
            raise ConfigError(f"option {option}: {tp} has {number}; {meaning}")
    return numbers


def _limits(given: Given) -> ReadLimits:
    delay = given.get("maxTriggerDelay")
    least = given.count("minOffsetsPerTrigger")
    if delay is not None and least is None:
        raise ConfigError("option maxTriggerDelay says how long to wait for minOffsetsPerTrigger; give that as well")
    return ReadLimits(
        offsets_max=given.count("maxOffsetsPerTrigger"),
        bytes_max=given.count("maxBytesPerTrigger"),
        offsets_min=least,
        delay_s_max=_TRIGGER_DELAY_S if delay is None else _seconds("maxTriggerDelay", delay),
    )


def _seconds(option: str, text: str) -> float:
    """A duration in Spark's words: ``15m``, ``30s``, ``500ms``; a bare number is milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ConfigError(f"option {option}: invalid duration {text!r}: give one such as 30s, 15m or 500ms")
    return int(found[1]) * _SECONDS[found[2] or "ms"]


def _group(given: Given) -> GroupOptions:
    name, prefix = given.get("kafka.group.id"), given.get("groupIdPrefix")
    if name is not None and prefix is not None:
        raise ConfigError("options kafka.group.id and groupIdPrefix: the group's whole name needs no prefix; give one")
    for option, value in (("kafka.group.id", name), ("groupIdPrefix", prefix)):
        if value is not None and not value.strip():
            raise ConfigError(f"option {option} is empty")
    commits = given.flag("commitOffsets", default=True)
    return GroupOptions(name, GROUP_PREFIX if prefix is None else prefix, commits)


def _assigned(text: str | None) -> frozenset[TopicPartition]:
    if text is None:
        return frozenset()
    try:
        document: dict[str, list[Any]] = json.loads(text)
        found = [TopicPartition(topic, _whole(p)) for topic, partitions in document.items() for p in partitions]
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f'option assign: {text!r} is not JSON such as {{"flights":[0,1]}}') from error
    if not found:
        raise ConfigError(f'option assign: {text!r} names no partition; write e.g. {{"flights":[0,1]}}')
    return frozenset(found)


def _pattern(text: str | None) -> str | None:
    if text is None:
        return None
    if not text.strip():
        raise ConfigError("option subscribePattern is empty; give a regular expression such as flights-.*")
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"option subscribePattern: invalid regular expression {text!r}: {error}") from error
    return text


def _columns(given: Given) -> tuple[str, ...] | None:
    names = given.get("columns")
    if names is None:
        with_headers = given.flag("includeHeaders", default=False)
        return None if with_headers else tuple(name for name in RECORD_COLUMNS if name != "headers")
    chosen = tuple(part.strip() for part in names.split(",") if part.strip())
    unknown = [name for name in chosen if name not in OFFERED_COLUMNS]
    if unknown or not chosen:
        said = f"no {', '.join(unknown)}" if unknown else "none is named"
        raise ConfigError(f"option columns: {said}; there are {', '.join(RECORD_COLUMNS)}")
    return chosen


def _isolation(text: str | None) -> Isolation:
    if text in (None, "read_committed"):
        return Isolation.READ_COMMITTED
    if text == "read_uncommitted":
        return Isolation.READ_UNCOMMITTED
    raise ConfigError(f"option kafka.isolation.level: {text!r} is neither read_committed nor read_uncommitted")
