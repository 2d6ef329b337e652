"""The broker's settings for share groups: Kafka's names, bounds and defaults, as rows of the settings table."""

from __future__ import annotations

from typing import Final

_HOUR_MS: Final = 3_600_000
_INT32_MAX: Final = 2**31 - 1

SHARE_SETTINGS: Final = (
    # name, least, greatest, default, doc
    ("group.share.assignment.interval.ms", 0, _INT32_MAX, 1000, "Kafka's least time between assignments; here none"),
    ("group.share.min.assignment.interval.ms", 0, _INT32_MAX, 0, "The least that a group may set it to"),
    ("group.share.max.assignment.interval.ms", 0, _INT32_MAX, 15_000, "The most that a group may set it to"),
    ("group.share.delivery.count.limit", 2, 10, 5, "How often a record is delivered before it is given up"),
    ("group.share.min.delivery.count.limit", 2, 5, 2, "The least that share.delivery.count.limit of a group may be"),
    ("group.share.max.delivery.count.limit", 5, 25, 10, "The most that share.delivery.count.limit of a group may be"),
    ("group.share.record.lock.duration.ms", 1000, _HOUR_MS, 30_000, "How long a member may hold a record"),
    (
        "group.share.min.record.lock.duration.ms",
        1000,
        30_000,
        15_000,
        "The least that share.record.lock.duration.ms of a group may be",
    ),
    (
        "group.share.max.record.lock.duration.ms",
        30_000,
        _HOUR_MS,
        60_000,
        "The most that share.record.lock.duration.ms of a group may be",
    ),
    (
        "group.share.partition.max.record.locks",
        100,
        10_000,
        2000,
        "Records of one partition that a group may have in flight",
    ),
    (
        "group.share.min.partition.max.record.locks",
        100,
        2000,
        100,
        "The least that share.partition.max.record.locks of a group may be",
    ),
    (
        "group.share.max.partition.max.record.locks",
        2000,
        10_000,
        4000,
        "The most that share.partition.max.record.locks of a group may be",
    ),
    (
        "group.share.heartbeat.interval.ms",
        1,
        _INT32_MAX,
        5000,
        "How often a member of a share group says that it lives",
    ),
    (
        "group.share.min.heartbeat.interval.ms",
        1,
        _INT32_MAX,
        5000,
        "The least that share.heartbeat.interval.ms of a group may be",
    ),
    (
        "group.share.max.heartbeat.interval.ms",
        1,
        _INT32_MAX,
        15_000,
        "The most that share.heartbeat.interval.ms of a group may be",
    ),
    (
        "group.share.session.timeout.ms",
        1,
        _INT32_MAX,
        45_000,
        "A member of a share group that is silent for so long is out",
    ),
    (
        "group.share.min.session.timeout.ms",
        1,
        _INT32_MAX,
        45_000,
        "The least that share.session.timeout.ms of a group may be",
    ),
    (
        "group.share.max.session.timeout.ms",
        1,
        _INT32_MAX,
        60_000,
        "The most that share.session.timeout.ms of a group may be",
    ),
    ("group.share.max.size", 1, 1000, 200, "The most members that a share group may have"),
    ("group.share.max.share.sessions", 1, _INT32_MAX, 2000, "Share sessions that are kept at once"),
    (
        "share.coordinator.state.topic.num.partitions",
        1,
        10_000,
        1,
        "Partitions of __share_group_state when it is created (Kafka: 50; here all groups then share one fsync)",
    ),
    (
        "share.coordinator.state.topic.segment.bytes",
        1024,
        _INT32_MAX,
        104_857_600,
        "segment.bytes of __share_group_state",
    ),
    (
        "share.coordinator.snapshot.update.records.per.snapshot",
        0,
        500,
        500,
        "Updates of a share partition's state between two snapshots of it",
    ),
)
