"""The broker's settings: Kafka's names, types, bounds and defaults, and where a default differs, why.

``SETTINGS`` is the table that DescribeConfigs lists for the broker. ``BrokerConfig`` holds one broker's settings and
checks all of them. A setting that is the default of a topic config (``log.retention.ms`` for ``retention.ms``) is
passed to the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from mainstem.addresses import is_loopback
from mainstem.broker.configs.group_settings import GROUP_SETTINGS
from mainstem.broker.configs.security_settings import SECURITY_SETTINGS
from mainstem.broker.security.listeners import Listener, Protocol
from mainstem.errors import ConfigError
from mainstem.log.partition.config import CONFIGS, parse_config, similar
from mainstem.log.partition.config_values import (
    BOOLEAN,
    INT32_MAX,
    TEXT,
    ConfigDef,
    ConfigType,
    definitions,
    long,
    whole,
)

_BASE: Final[Mapping[tuple[str, ConfigType, str | int], str]] = {
    ("auto.create.topics.enable", BOOLEAN, "true"): "Whether a topic is created when a client asks for one that is "
    "not there",
    ("delete.topic.enable", BOOLEAN, "true"): "Whether topics can be deleted",
    ("num.partitions", whole(1, 10_000), 1): "Partitions of a topic that is created without a count",
    ("default.replication.factor", whole(1, 1), 1): "One node keeps one replica",
    ("node.id", whole(0), 1): "This node's id",
    ("socket.request.max.bytes", whole(1), 104_857_600): "The largest request; a larger one closes its connection "
    "before memory is taken for it",
    ("queued.max.request.bytes", long(1), 268_435_456): "Bytes of requests in flight, over all connections, above "
    "which the node stops reading (Kafka: no limit); incomplete requests may take half as much in addition",
    ("mainstem.queued.principal.request.bytes", long(-1), -1): "Bytes of requests in flight of one principal, or of "
    "one address without a user; -1: half of queued.max.request.bytes",
    ("mainstem.queued.connection.request.bytes", long(-1), -1): "Bytes of requests in flight of one connection; -1: "
    "half of mainstem.queued.principal.request.bytes",
    ("mainstem.unauthenticated.request.bytes", long(1), 16_777_216): "Bytes of requests in flight of all connections "
    "without an authenticated user; they do not count in queued.max.request.bytes",
    ("mainstem.unauthenticated.connections.max", whole(1), 1000): "Connections without an authenticated user; one more "
    "closes the one that was opened first",
    ("max.connections", whole(1), 10_000): "Connections that are open at once; one more is closed as soon as it is "
    "accepted",
    ("connections.max.idle.ms", long(1), 600_000): "A connection on which nothing happens for so long is closed",
    ("mainstem.request.stall.ms", long(1), 30_000): "A connection is closed when a request has begun to arrive "
    "and nothing further of it arrives for so long",
    ("mainstem.request.rate.min", whole(1), 16_384): "Bytes a second at which a request has to arrive "
    "once it takes longer than mainstem.request.stall.ms; ten times as many while other connections of its principal "
    "wait for memory to receive. A slower request closes its connection",
    ("mainstem.queued.max.response.bytes", long(1), 268_435_456): "Bytes of answers that clients do not read, over "
    "all connections, above which the slowest readers are closed",
    ("mainstem.response.max.bytes", whole(1024), 100_000_000): "The longest answer to a request with many items; one "
    "that would be longer closes its connection",
    ("fetch.max.bytes", whole(1024), 57_671_680): "The most bytes of records in one answer to a fetch",
    ("max.incremental.fetch.session.cache.slots", whole(0), 1000): "Fetch sessions that are kept at once; a client "
    "without one sends all its partitions with every fetch",
    ("mainstem.metrics.series.max", whole(0), 1000): "How many topics, partitions or topics of groups /metrics lists "
    "one by one; where there are more, sums alone",
    (
        "mainstem.telemetry.series.max",
        whole(0),
        1000,
    ): "How many series of clients' metrics /metrics shows; further ones are counted",
    ("telemetry.max.bytes", whole(1, 8 << 20), 1_048_576): "The most bytes of metrics that a client may push at once, "
    "compressed",
    ("mainstem.fetch.session.partitions.max", whole(0), 250_000): "Partitions in all kept fetch sessions together, "
    "each of which takes about half a kilobyte",
    ("max.request.partition.size.limit", whole(1), 2000): "The most partitions in one answer to "
    "DescribeTopicPartitions",
    ("offset.metadata.max.bytes", whole(0), 4096): "The longest text that may go with a committed offset",
    ("offsets.topic.num.partitions", whole(1, 10_000), 1): "Partitions of __consumer_offsets when it is created "
    "(Kafka: 50; here all groups then share one fsync)",
    ("offsets.retention.minutes", whole(1), 10_080): "Committed offsets are removed this long after their group "
    "became empty; this long after the commit if no member subscribes to the topic, or the group never had members",
    ("offsets.retention.check.interval.ms", long(1), 600_000): "How often committed offsets are looked through for "
    "those whose time is over",
    ("offsets.topic.segment.bytes", whole(1024), 104_857_600): "segment.bytes of __consumer_offsets",
    ("log.retention.check.interval.ms", long(1), 300_000): "How often all partitions are looked at for segments that "
    "retention.ms or retention.bytes do not keep",
    (
        "remote.log.manager.task.interval.ms",
        long(1),
        30_000,
    ): "How often topics with remote.storage.enable are looked "
    "at for segments that local.retention.ms or local.retention.bytes do not keep on the disk",
    ("mainstem.remote.storage.url", TEXT, ""): "The backup of this log, from which segments are read that have left "
    "the disk; --backup of mainstem serve and mainstem run sets it",
    ("mainstem.remote.cache.bytes", long(128 << 20), 1 << 30): "Space for what was read from there: on the disk, and "
    "in memory for pieces of up to 256 KiB",
    ("log.cleaner.enable", BOOLEAN, "true"): "Whether topics with cleanup.policy=compact are compacted",
    ("log.cleaner.backoff.ms", long(1), 15_000): "How often compaction looks for work",
    ("log.cleaner.dedupe.buffer.size", long(1 << 16), 134_217_728): "Memory for the keys of one compaction, 24 bytes "
    "each; what does not fit is left to the next one",
    ("group.min.session.timeout.ms", whole(1), 6000): "The shortest session time-out of a group's member",
    ("group.max.session.timeout.ms", whole(1), 1_800_000): "The longest session time-out of a group's member",
    ("group.initial.rebalance.delay.ms", whole(0), 0): "How long a new group waits for more members before its first "
    "rebalance (Kafka: 3000, but 0 in the file that it ships)",
    ("transaction.max.timeout.ms", whole(1), 900_000): "The longest time-out that a transactional producer may ask "
    "for; two-phase transactions have none",
    ("transactional.id.expiration.ms", whole(1), 604_800_000): "A transactional id that has begun and ended nothing "
    "for so long is forgotten",
    ("transaction.remove.expired.transaction.cleanup.interval.ms", whole(1), 3_600_000): "How often the log looks for "
    "transactional ids to be forgotten",
    ("transaction.two.phase.commit.enable", BOOLEAN, "true"): "Whether a producer may begin transactions that have no "
    "time-out, because a coordinator of its own decides on them (Kafka: false)",
    ("transaction.state.log.num.partitions", whole(1, 10_000), 1): "Partitions of __transaction_state when it is "
    "created (Kafka: 50; here all transactions then share one fsync)",
    ("transaction.state.log.segment.bytes", whole(1024), 104_857_600): "segment.bytes of __transaction_state",
    ("mainstem.group.member.bytes.max", whole(1024), 1_048_576): "The metadata, the names or the assignment that one "
    "member of a group may have, in bytes; more closes its connection",
    ("mainstem.groups.bytes.max", whole(1024), 268_435_456): "The metadata, names and assignments that the members of "
    "all groups may have together, in bytes; a member for which there is no room gets GROUP_MAX_SIZE_REACHED",
    ("group.max.size", whole(1), INT32_MAX): "The most members that a group may have",
}


_TOPIC_DEFAULTS: Final = tuple(
    replace(
        CONFIGS[topic_config],
        name=name,
        doc=f"Default of the topic config {topic_config}",
        topic_config=topic_config,
    )
    for name, topic_config in {
        "log.cleanup.policy": "cleanup.policy",
        "compression.gzip.level": "compression.gzip.level",
        "compression.lz4.level": "compression.lz4.level",
        "compression.type": "compression.type",
        "compression.zstd.level": "compression.zstd.level",
        "log.cleaner.delete.retention.ms": "delete.retention.ms",
        "log.segment.delete.delay.ms": "file.delete.delay.ms",
        "log.flush": "flush",
        "log.flush.interval.messages": "flush.messages",
        "log.flush.interval.ms": "flush.ms",
        "log.index.interval.bytes": "index.interval.bytes",
        "log.local.retention.bytes": "local.retention.bytes",
        "log.local.retention.ms": "local.retention.ms",
        "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
        "message.max.bytes": "max.message.bytes",
        "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
        "log.message.timestamp.type": "message.timestamp.type",
        "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
        "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
        "min.insync.replicas": "min.insync.replicas",
        "log.preallocate": "preallocate",
        "log.retention.bytes": "retention.bytes",
        "log.retention.ms": "retention.ms",
        "log.segment.bytes": "segment.bytes",
        "log.index.size.max.bytes": "segment.index.bytes",
        "log.roll.jitter.ms": "segment.jitter.ms",
        "log.roll.ms": "segment.ms",
        "unclean.leader.election.enable": "unclean.leader.election.enable",
    }.items()
    if topic_config in CONFIGS
)

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
# As in Kafka, milliseconds win over minutes, and minutes over hours.
_COARSE: Final = tuple(
    ConfigDef(
        name,
        "int",
        default,
        f"{topic_config} in {unit}, for topics that do not set it; {finer} wins",
        whole(-1).parse,
        topic_config,
        scale,
    )
    for name, default, unit, scale, topic_config, finer in (
        ("log.retention.hours", "168", "hours", _HOUR_MS, "retention.ms", "log.retention.minutes"),
        ("log.retention.minutes", "10080", "minutes", _MINUTE_MS, "retention.ms", "log.retention.ms"),
        ("log.roll.hours", "168", "hours", _HOUR_MS, "segment.ms", "log.roll.ms"),
    )
)

SETTINGS: Final[Mapping[str, ConfigDef]] = MappingProxyType(
    {
        setting.name: setting
        for setting in sorted(
            (*definitions({**_BASE, **GROUP_SETTINGS, **SECURITY_SETTINGS}).values(), *_COARSE, *_TOPIC_DEFAULTS),
            key=lambda setting: setting.name,
        )
    }
)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The settings of one broker.

    It listens on ``listeners``, or else in plaintext on ``host`` and ``port``. Port 0 takes a free one. ``advertised``
    is the address that clients of ``host`` and ``port`` get; by default the one it listens on. ``settings`` are Kafka's
    names and values as text. Raises ConfigError for invalid settings.
    """

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 9092
    advertised: tuple[str, int] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    insecure: bool = False
    listeners: tuple[Listener, ...] = ()

    def __post_init__(self) -> None:
        for name, text in self.settings.items():
            self.parse(name, text)
        for listener in self.all_listeners:
            if not self.insecure and not is_loopback(listener.host):
                self._refuse_open(listener)

    @property
    def all_listeners(self) -> tuple[Listener, ...]:
        """The addresses it listens on; the node's own processes use the first."""
        return self.listeners or (Listener(Protocol.PLAINTEXT, self.host, self.port, self.advertised),)

    def _refuse_open(self, listener: Listener) -> None:
        """Refuse a listener that other machines can reach without authentication or encryption. Raises ConfigError."""
        knows_clients = listener.protocol.has_sasl or self.get("ssl.client.auth") == "required"
        if listener.protocol.has_tls and knows_clients:
            return
        if listener.protocol.has_sasl:
            lacks = "SASL_PLAINTEXT has no encryption, so anyone on the way could read and change what goes over it"
        elif listener.protocol.has_tls:
            lacks = "with SSL and without ssl.client.auth=required anyone who reaches it could use every topic"
        else:
            lacks = "without TLS and authentication anyone who reaches it could read and write every topic"
        raise ConfigError(
            f"will not listen on {listener.host}: {lacks}; listen on 127.0.0.1, or with SASL_SSL://, or insist with "
            "--insecure"
        )

    @staticmethod
    def parse(name: str, text: str) -> Any:
        """Parse ``text`` as a value of the setting ``name``. Raises ConfigError."""
        setting = SETTINGS.get(name)
        if setting is None:
            hint = similar(name, SETTINGS) or "; settings have Kafka's names, such as num.partitions"
            raise ConfigError(f"unknown setting {name[:300]!r}{hint}")
        if setting.topic_config is not None and setting.scale == 1:
            return parse_config(setting.topic_config, text)
        return setting.value(text, "setting")

    def get(self, name: str) -> Any:
        """Return the parsed value of a setting, or its default."""
        return self.parse(name, self.text(name))

    def text(self, name: str) -> str:
        """Return the value of a setting as text, or its default."""
        return self.settings.get(name, SETTINGS[name].default)

    def topic_defaults(self) -> dict[str, str]:
        """Return the topic configs whose default these settings change."""
        defaults = {}
        for setting in (*_COARSE, *_TOPIC_DEFAULTS):
            if setting.topic_config is not None and setting.name in self.settings:
                defaults[setting.topic_config] = scaled(self.settings[setting.name], setting.scale)
        return defaults


def scaled(text: str, scale: int) -> str:
    """Convert a setting's value to the units of its topic config; -1 stays -1."""
    return text if scale == 1 or int(text) < 0 else str(int(text) * scale)
