"""A topic's configs: Kafka's names, types, bounds and defaults, and Mainstem's own ``flush``.

``CONFIGS`` is the table that DescribeConfigs lists; ``LogConfig`` is one topic's settings, checked in one place.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from mainstem.errors import ConfigError
from mainstem.log.partition.config_values import (
    BOOLEAN,
    CLEANUP_POLICY,
    GZIP_LEVEL,
    INT64_MAX,
    MIRROR_SOURCE,
    RATIO,
    THROTTLED_REPLICAS,
    ConfigDef,
    ConfigType,
    definitions,
    long,
    one_of,
    whole,
)
from mainstem.record.constants import DECOMPRESSED_BYTES_MAX

_NO_REPLICAS = "Kafka's replicas whose traffic is throttled; this node has none"
_LOCAL = "With remote.storage.enable: the {} above which a partition's oldest closed segments leave the disk, once the "
_LOCAL += "backup holds them; -2: as retention.{}, so that they do not leave before they go; -1: no limit"
_TOPIC_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicNameStrategy"
RECORD_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
TOPIC_RECORD_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
_NAME_STRATEGY = one_of(_TOPIC_NAME_STRATEGY, RECORD_NAME_STRATEGY, TOPIC_RECORD_NAME_STRATEGY)
_SUBJECT = "The subject whose schemas a {} may name: TOPIC-{}, the name of the schema's record, or TOPIC-RECORD"
_VALIDATED = "Whether a record is refused when its {} names no schema of its subject, by default TOPIC-{}"
_TABLE: Mapping[tuple[str, ConfigType, str | int], str] = {
    ("cleanup.policy", CLEANUP_POLICY, "delete"): "What may remove old records: delete (by retention), compact (the "
    "latest of each key stays), both, or none",
    ("compression.type", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), "producer"): "The codec "
    "that batches are stored with; producer keeps each as it was sent",
    ("compression.gzip.level", GZIP_LEVEL, -1): "The level of compression.type=gzip, from 1 to 9; -1: the codec's "
    "default",
    ("compression.lz4.level", whole(1, 17), 9): "Kafka's level of compression.type=lz4; here there is one, the fast "
    "one, which is Kafka's 9",
    ("compression.zstd.level", whole(-131_072, 22), 3): "The level of compression.type=zstd",
    ("confluent.key.schema.validation", BOOLEAN, "false"): _VALIDATED.format("key", "key"),
    ("confluent.key.subject.name.strategy", _NAME_STRATEGY, _TOPIC_NAME_STRATEGY): _SUBJECT.format("key", "key"),
    ("confluent.value.schema.validation", BOOLEAN, "false"): _VALIDATED.format("value", "value"),
    ("confluent.value.subject.name.strategy", _NAME_STRATEGY, _TOPIC_NAME_STRATEGY): _SUBJECT.format("value", "value"),
    ("delete.retention.ms", long(0), 86_400_000): "How long compaction keeps a tombstone, so that readers see it",
    ("file.delete.delay.ms", long(0), 60_000): "Kafka's delay before files go; here they go with the next "
    "checkpoints, a second or two later",
    ("flush", one_of("commit", "os"), "commit"): "commit: a record is acknowledged (acks=all) and visible only when "
    "it is on the disk. os: as Apache Kafka's default, the operating system writes it some time later, and a power "
    "cut may lose it",
    ("flush.messages", long(1), INT64_MAX): "Kafka's fsync interval in records; flush=commit syncs before each "
    "acknowledgement",
    ("errors.deadletterqueue.group.enable", BOOLEAN, "false"): "Whether share groups may write their dead letters to "
    "the topic",
    ("flush.ms", long(0), INT64_MAX): "Kafka's fsync interval in time; flush=commit syncs before each acknowledgement",
    ("follower.replication.throttled.replicas", THROTTLED_REPLICAS, ""): _NO_REPLICAS,
    ("index.interval.bytes", whole(0), 4096): "About how many bytes of log are between two entries of the offset index",
    ("leader.replication.throttled.replicas", THROTTLED_REPLICAS, ""): _NO_REPLICAS,
    ("local.retention.bytes", long(-2), -2): _LOCAL.format("local size", "bytes"),
    ("local.retention.ms", long(-2), -2): _LOCAL.format("age, by its newest record,", "ms"),
    ("max.compaction.lag.ms", long(1), INT64_MAX): "The longest that a record may stay out of compaction's reach",
    ("mainstem.conditional.append", BOOLEAN, "false"): "Whether records may carry conditions in headers "
    "(mainstem-expect-key-offset, mainstem-expect-end); a batch whose conditions do not hold is refused as "
    "INVALID_RECORD. Without it these headers say nothing to the log",
    ("mainstem.idempotency.window.ms", long(0), 0): "How long a record's header mainstem-idempotency-key is "
    "remembered: an append with the same key is answered with the first one's offset. 0: the header says nothing to "
    "the log",
    ("mainstem.key.index", BOOLEAN, "false"): "Whether an index from keys to offsets is kept, so that one key's "
    "records are read without a scan",
    ("mainstem.key.schema.validation", BOOLEAN, "false"): "As confluent.key.schema.validation; either turns it on",
    ("mainstem.max.decompressed.bytes", whole(1, DECOMPRESSED_BYTES_MAX), 134_217_728): "The most that a record batch "
    "may come to when it is decompressed; a larger one is refused as MESSAGE_TOO_LARGE",
    (
        "mainstem.mirror.of",
        MIRROR_SOURCE,
        "",
    ): "Of which topic this one is a copy: CLUSTER_ID/TOPIC_ID. As long as it is set, "
    "only a mirror appends, at the offsets of the source; others may read. mainstem promote removes it",
    ("mainstem.schema.validation.content", BOOLEAN, "false"): "Whether a key or value that names a schema is also read "
    "by it, where keys or values are validated; a record that does not fit is refused",
    ("mainstem.value.schema.validation", BOOLEAN, "false"): "As confluent.value.schema.validation; either turns it on",
    ("mainstem.verifiable", BOOLEAN, "false"): "Whether a Merkle tree over the stored record batches is kept, so that "
    "signed checkpoints prove that the history was not changed. A topic that is verifiable stays so",
    ("max.message.bytes", whole(0), 1_048_588): "The largest record batch that is accepted, as it was sent",
    ("message.timestamp.after.max.ms", long(0), 3_600_000): "How far a record's CreateTime may be after the log's "
    "clock",
    ("message.timestamp.before.max.ms", long(0), INT64_MAX): "How far a record's CreateTime may be before the log's "
    "clock",
    ("message.timestamp.type", one_of("CreateTime", "LogAppendTime"), "CreateTime"): "Whether a record keeps its "
    "producer's timestamp or gets the log's",
    ("min.cleanable.dirty.ratio", RATIO, "0.5"): "The share of not yet compacted bytes from which compaction starts",
    ("min.compaction.lag.ms", long(0), 0): "The shortest that a record stays out of compaction's reach",
    ("min.insync.replicas", whole(1), 1): "Kafka's count of replicas for acks=all; this node is the only one",
    ("preallocate", BOOLEAN, "false"): "Kafka's preallocation of segments; not used here",
    ("retention.bytes", long(), -1): "The size of a partition above which cleanup.policy=delete removes its oldest "
    "segments; below 0: no limit",
    ("retention.ms", long(-1), 604_800_000): "The age, by its newest record, at which cleanup.policy=delete removes a "
    "segment; -1: no limit",
    ("remote.log.copy.disable", BOOLEAN, "false"): "With remote.storage.enable: whether further segments stay on the "
    "disk; those that have left it are still read",
    ("remote.log.delete.on.disable", BOOLEAN, "false"): "Kafka's way to turn remote.storage.enable off, which is not "
    "here: the value is kept and changes nothing",
    ("remote.storage.enable", BOOLEAN, "false"): "Whether old segments may be in the backup's store alone, see "
    "local.retention.ms. It needs a backup, and cannot be turned off",
    ("segment.bytes", whole(14), 1_073_741_824): "The size at which a new segment is begun",
    ("segment.index.bytes", whole(4), 10_485_760): "The size of an index at which a new segment is begun; index files "
    "are as long as their entries, never longer",
    ("segment.jitter.ms", long(0), 0): "Kafka's random delay of segment.ms; not used here",
    ("segment.ms", long(1), 604_800_000): "The age at which a new segment is begun with the next append, by the "
    "records' timestamps",
    ("unclean.leader.election.enable", BOOLEAN, "false"): "Kafka's choice of an out-of-sync leader; this node has no "
    "replicas",
}

INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
"""Kafka's config for tests: a size below the least that ``segment.bytes`` may be set to. It is not listed."""
SEGMENT_BYTES_MIN = 1024 * 1024
"""The least that a client may set ``segment.bytes`` to. A topic that has less already keeps it."""
_INTERNAL = definitions({(INTERNAL_SEGMENT_BYTES, whole(14), ""): "The size of a segment, for tests alone"})

CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(definitions(_TABLE))


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic, parsed. ``overrides`` are those that were set; the rest are defaults."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    min_cleanable_dirty_ratio: float = 0.5
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_zstd_level: int = 3
    flush: str = "commit"
    confluent_key_schema_validation: bool = False
    confluent_key_subject_name_strategy: str = _TOPIC_NAME_STRATEGY
    confluent_value_schema_validation: bool = False
    confluent_value_subject_name_strategy: str = _TOPIC_NAME_STRATEGY
    mainstem_conditional_append: bool = False
    mainstem_idempotency_window_ms: int = 0
    mainstem_key_index: bool = False
    mainstem_key_schema_validation: bool = False
    mainstem_max_decompressed_bytes: int = 128 << 20
    mainstem_mirror_of: str = ""
    mainstem_schema_validation_content: bool = False
    mainstem_value_schema_validation: bool = False
    mainstem_verifiable: bool = False
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    remote_log_copy_disable: bool = False
    remote_storage_enable: bool = False
    overrides: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # What follows from the settings, and is read at each append.
    flushes_before_commit: bool = field(init=False, repr=False, compare=False)
    """Whether the high watermark waits for the disk."""
    uses_log_append_time: bool = field(init=False, repr=False, compare=False)
    is_compacted: bool = field(init=False, repr=False, compare=False)
    codec: str | None = field(init=False, repr=False, compare=False)
    """The codec that batches are to be stored with; None when they stay as they came."""
    validates_keys: bool = field(init=False, repr=False, compare=False)
    """Whether a record's key must name a schema of its subject; ``validates_values`` is the same of its value."""
    validates_values: bool = field(init=False, repr=False, compare=False)
    validates_schemas: bool = field(init=False, repr=False, compare=False)
    """Whether either does."""
    validates_content: bool = field(init=False, repr=False, compare=False)
    """Whether what names a schema is read by it, too."""
    roll_ms: int = field(init=False, repr=False, compare=False)
    """The age at which a segment is rolled: compaction does not touch the active one."""

    def __post_init__(self) -> None:
        is_compacted = "compact" in self.cleanup_policy
        validates_keys = self.confluent_key_schema_validation or self.mainstem_key_schema_validation
        validates_values = self.confluent_value_schema_validation or self.mainstem_value_schema_validation
        derived = {
            "validates_keys": validates_keys,
            "validates_values": validates_values,
            "validates_schemas": validates_keys or validates_values,
            "validates_content": self.mainstem_schema_validation_content and (validates_keys or validates_values),
            "flushes_before_commit": self.flush == "commit",
            "uses_log_append_time": self.message_timestamp_type == "LogAppendTime",
            "is_compacted": is_compacted,
            "codec": None if self.compression_type == "producer" else self.compression_type,
            "roll_ms": min(self.segment_ms, self.max_compaction_lag_ms) if is_compacted else self.segment_ms,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)  # the class is frozen

    @classmethod
    def of(cls, overrides: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> LogConfig:
        """The settings that ``overrides`` give a topic over ``defaults`` (the node's own).

        Raises ConfigError: a name that does not exist, a value out of its range.
        """
        fields = cls.__dataclass_fields__
        parsed: dict[str, Any] = {}
        for name, text in {**(defaults or {}), **overrides}.items():
            value = parse_config(name, text)
            if name == "segment.bytes" and INTERNAL_SEGMENT_BYTES in overrides:
                continue
            field_name = name.replace(".", "_").removeprefix("internal_")
            if field_name in fields:
                parsed[field_name] = value
        return cls(**parsed, overrides=MappingProxyType(dict(overrides)))

    @property
    def is_tiered(self) -> bool:
        """Whether old segments may leave the disk, once the backup's store has them.

        Not where the node's default has become a cleanup.policy that does not go together with it.
        """
        return self.remote_storage_enable and not self.remote_log_copy_disable and not self.is_compacted

    @property
    def local_limits(self) -> tuple[int, int]:
        """The age in ms and the size in bytes above which they do; below 0: no limit."""
        as_retained = (self.retention_ms, self.retention_bytes)
        local = (self.local_retention_ms, self.local_retention_bytes)
        age_ms, size_bytes = (whole if own == -2 else own for own, whole in zip(local, as_retained, strict=True))
        return age_ms, size_bytes

    @property
    def remembers_idempotency_keys(self) -> bool:
        return self.mainstem_idempotency_window_ms > 0

    @property
    def is_mirror(self) -> bool:
        """Whether the topic is the copy of another one, and takes batches of a mirror alone."""
        return bool(self.mainstem_mirror_of)

    @property
    def needs_key_index(self) -> bool:
        """Whether there is anything to keep in the key index's store."""
        return self.mainstem_key_index or self.remembers_idempotency_keys

    @property
    def has_log_features(self) -> bool:
        """Whether an append is looked at record by record. A mirror's features begin when it is promoted."""
        return not self.is_mirror and (self.needs_key_index or self.mainstem_conditional_append)

    @property
    def compression_level(self) -> int | None:
        """The level of that codec; None for one that has none."""
        levels = {
            "gzip": self.compression_gzip_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)


def parse_config(name: str, text: str) -> Any:
    """The value that ``text`` gives the config ``name``. Raises ConfigError."""
    definition = CONFIGS.get(name) or _INTERNAL.get(name)
    if definition is None:
        hint = similar(name, CONFIGS) or "; to list them: mainstem topics describe TOPIC"
        raise ConfigError(f"unknown topic config {name[:300]!r}{hint}")
    return definition.value(text, "topic config")


def similar(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the known one that is probably meant, if there is one."""
    close = difflib.get_close_matches(name[:100], list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_changed_configs(changed: Mapping[str, str], former: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """Whether a client may give a topic the configs ``changed`` in place of ``former``. Raises ConfigError.

    These are Kafka's rules for a change (LogConfig.validate). They are left out when a topic is opened, so that one
    from before a rule can still be read.
    """
    config = LogConfig.of(changed, defaults)
    text = changed.get("segment.bytes")
    is_new = text != former.get("segment.bytes") and INTERNAL_SEGMENT_BYTES not in changed
    if text is not None and is_new and config.segment_bytes < SEGMENT_BYTES_MIN:
        raise ConfigError(f"topic config segment.bytes={text!r}: must be at least {SEGMENT_BYTES_MIN}")
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"topic config min.compaction.lag.ms={config.min_compaction_lag_ms}: must be at most "
            f"max.compaction.lag.ms, which is {config.max_compaction_lag_ms}"
        )
    _check_stays_verifiable(config, LogConfig.of(former, defaults))
    _check_tiered(config, LogConfig.of(former, defaults))


def _check_tiered(config: LogConfig, former: LogConfig) -> None:
    """Kafka's rules for tiered topics, and those of features that read old records from the disk alone."""
    if former.remote_storage_enable and not config.remote_storage_enable:
        raise ConfigError(
            "topic config remote.storage.enable='false': it cannot be turned off, as segments may be in the store "
            "alone; set remote.log.copy.disable=true, and no further ones leave the disk"
        )
    if not config.remote_storage_enable:
        return
    for is_in_the_way, name in (
        (config.is_compacted or "delete" not in config.cleanup_policy, "a cleanup.policy other than delete"),
        (config.mainstem_key_index, "mainstem.key.index"),
        (config.remembers_idempotency_keys, "mainstem.idempotency.window.ms"),
        (config.mainstem_conditional_append, "mainstem.conditional.append"),
        (config.mainstem_verifiable, "mainstem.verifiable"),
    ):
        if is_in_the_way:
            raise ConfigError(f"topic config remote.storage.enable='true': it does not go together with {name}")
    for name, local, whole_limit in (
        ("ms", config.local_retention_ms, config.retention_ms),
        ("bytes", config.local_retention_bytes, config.retention_bytes),
    ):
        if local != -2 and whole_limit >= 0 and not 0 <= local <= whole_limit:
            raise ConfigError(
                f"topic config local.retention.{name}={local}: must be at most retention.{name}, which is {whole_limit}"
            )


def _check_stays_verifiable(config: LogConfig, former: LogConfig) -> None:
    """Refuse a hole in the history; and a log in which it cannot be known which batches compaction has rewritten."""
    if not former.mainstem_verifiable:
        return
    if not config.mainstem_verifiable:
        raise ConfigError(
            "topic config mainstem.verifiable='false': a verifiable topic stays verifiable; copy its records to "
            "another topic instead"
        )
    if former.is_compacted and not config.is_compacted:
        raise ConfigError("topic config cleanup.policy: a verifiable topic that is compacted stays compacted")
