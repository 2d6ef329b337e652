"""The broker's settings for consumer, share and streams groups, as rows of the settings table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mainstem.log.partition.config_values import BOOLEAN, INT32_MAX, TEXT, ConfigType, one_of, whole

_MIGRATION: Final = one_of("disabled", "upgrade", "downgrade", "bidirectional")
GROUP_SETTINGS: Final[Mapping[tuple[str, ConfigType, str | int], str]] = {
    ("group.consumer.session.timeout.ms", whole(1), 45_000): "A member that is silent for so long is out",
    ("group.consumer.min.session.timeout.ms", whole(1), 45_000): "The least that consumer.session.timeout.ms of a "
    "group may be",
    ("group.consumer.max.session.timeout.ms", whole(1), 60_000): "The most that consumer.session.timeout.ms of a "
    "group may be",
    ("group.consumer.heartbeat.interval.ms", whole(1), 5000): "How often a member says that it lives",
    ("group.consumer.min.heartbeat.interval.ms", whole(1), 5000): "The least that consumer.heartbeat.interval.ms of a "
    "group may be",
    ("group.consumer.max.heartbeat.interval.ms", whole(1), 15_000): "The most that consumer.heartbeat.interval.ms of "
    "a group may be",
    ("group.consumer.assignment.interval.ms", whole(0), 1000): "Kafka's least time between assignments; here none",
    ("group.consumer.min.assignment.interval.ms", whole(0), 0): "The least that a group may set it to",
    ("group.consumer.max.assignment.interval.ms", whole(0), 15_000): "The most that a group may set it to",
    ("group.consumer.migration.policy", _MIGRATION, "bidirectional"): "Which way a group with members may change its "
    "protocol: to that of consumer groups (upgrade), back to the classic one (downgrade), both, or neither (disabled)",
    ("group.consumer.max.size", whole(1), INT32_MAX): "The most members that a consumer group may have",
    ("group.share.assignment.interval.ms", whole(0), 1000): "Kafka's least time between assignments; here none",
    ("group.share.min.assignment.interval.ms", whole(0), 0): "The least that a group may set it to",
    ("group.share.max.assignment.interval.ms", whole(0), 15_000): "The most that a group may set it to",
    ("group.share.delivery.count.limit", whole(2, 10), 5): "How often a record is delivered before it is given up",
    ("group.share.min.delivery.count.limit", whole(2, 5), 2): "The least that share.delivery.count.limit of a group "
    "may be",
    ("group.share.max.delivery.count.limit", whole(5, 25), 10): "The most that share.delivery.count.limit of a group "
    "may be",
    ("group.share.record.lock.duration.ms", whole(1000, 3_600_000), 30_000): "How long a member may hold a record",
    ("group.share.min.record.lock.duration.ms", whole(1000, 30_000), 15_000): "The least that "
    "share.record.lock.duration.ms of a group may be",
    ("group.share.max.record.lock.duration.ms", whole(30_000, 3_600_000), 60_000): "The most that "
    "share.record.lock.duration.ms of a group may be",
    ("group.share.partition.max.record.locks", whole(100, 10_000), 2000): "Records of one partition that a group may "
    "have in flight",
    ("group.share.min.partition.max.record.locks", whole(100, 2000), 100): "The least that "
    "share.partition.max.record.locks of a group may be",
    ("group.share.max.partition.max.record.locks", whole(2000, 10_000), 4000): "The most that "
    "share.partition.max.record.locks of a group may be",
    ("group.share.heartbeat.interval.ms", whole(1), 5000): "How often a member of a share group says that it lives",
    ("group.share.min.heartbeat.interval.ms", whole(1), 5000): "The least that share.heartbeat.interval.ms of a group "
    "may be",
    ("group.share.max.heartbeat.interval.ms", whole(1), 15_000): "The most that share.heartbeat.interval.ms of a "
    "group may be",
    ("group.share.session.timeout.ms", whole(1), 45_000): "A member of a share group that is silent for so long is out",
    ("group.share.min.session.timeout.ms", whole(1), 45_000): "The least that share.session.timeout.ms of a group may "
    "be",
    ("group.share.max.session.timeout.ms", whole(1), 60_000): "The most that share.session.timeout.ms of a group may "
    "be",
    ("group.share.max.size", whole(1, 1000), 200): "The most members that a share group may have",
    ("group.share.max.share.sessions", whole(1), 2000): "Share sessions that are kept at once",
    ("group.streams.session.timeout.ms", whole(1), 45_000): "A member of a streams group that is silent for so long is "
    "out",
    ("group.streams.min.session.timeout.ms", whole(1), 45_000): "The least that streams.session.timeout.ms of a group "
    "may be",
    ("group.streams.max.session.timeout.ms", whole(1), 60_000): "The most that streams.session.timeout.ms of a group "
    "may be",
    ("group.streams.heartbeat.interval.ms", whole(1), 5000): "How often a member of a streams group says that it lives",
    ("group.streams.min.heartbeat.interval.ms", whole(1), 5000): "The least that streams.heartbeat.interval.ms of a "
    "group may be",
    ("group.streams.max.heartbeat.interval.ms", whole(1), 15_000): "The most that streams.heartbeat.interval.ms of a "
    "group may be",
    ("group.streams.assignment.interval.ms", whole(0), 1000): "Kafka's least time between assignments; here none",
    ("group.streams.min.assignment.interval.ms", whole(0), 0): "The least that a group may set it to",
    ("group.streams.max.assignment.interval.ms", whole(0), 15_000): "The most that a group may set it to",
    ("group.streams.initial.rebalance.delay.ms", whole(0), 3000): "Kafka's wait for more members of a new streams "
    "group; here none",
    ("group.streams.num.standby.replicas", whole(0), 0): "Standby tasks of each task of a streams group",
    ("group.streams.max.standby.replicas", whole(0), 2): "The most that streams.num.standby.replicas of a group may be",
    ("group.streams.max.size", whole(1), INT32_MAX): "The most members that a streams group may have",
    ("errors.deadletterqueue.auto.create.topics.enable", BOOLEAN, "false"): "Whether a topic that a share group names "
    "for its dead letters is created when it is missing",
    ("errors.deadletterqueue.topic.name.prefix", TEXT, "dlq."): "How the names of topics for dead letters of share "
    "groups begin; empty: any name",
    ("share.coordinator.state.topic.num.partitions", whole(1, 10_000), 1): "Partitions of __share_group_state when it "
    "is created (Kafka: 50; here all groups then share one fsync)",
    ("share.coordinator.state.topic.segment.bytes", whole(1024), 104_857_600): "segment.bytes of __share_group_state",
    ("share.coordinator.snapshot.update.records.per.snapshot", whole(0, 500), 500): "Updates of a share partition's "
    "state between two snapshots of it",
}
