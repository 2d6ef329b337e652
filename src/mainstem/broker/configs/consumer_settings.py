"""The broker's settings for consumer groups (KIP-848): Kafka's names and defaults, as rows of the table."""

from __future__ import annotations

from typing import Final

_INT32_MAX: Final = 2**31 - 1

CONSUMER_SETTINGS: Final = (
    # name, least, greatest, default, doc
    ("group.consumer.session.timeout.ms", 1, _INT32_MAX, 45_000, "A member that is silent for so long is out"),
    (
        "group.consumer.min.session.timeout.ms",
        1,
        _INT32_MAX,
        45_000,
        "The least that consumer.session.timeout.ms of a group may be",
    ),
    (
        "group.consumer.max.session.timeout.ms",
        1,
        _INT32_MAX,
        60_000,
        "The most that consumer.session.timeout.ms of a group may be",
    ),
    ("group.consumer.heartbeat.interval.ms", 1, _INT32_MAX, 5000, "How often a member says that it lives"),
    (
        "group.consumer.min.heartbeat.interval.ms",
        1,
        _INT32_MAX,
        5000,
        "The least that consumer.heartbeat.interval.ms of a group may be",
    ),
    (
        "group.consumer.max.heartbeat.interval.ms",
        1,
        _INT32_MAX,
        15_000,
        "The most that consumer.heartbeat.interval.ms of a group may be",
    ),
    ("group.consumer.assignment.interval.ms", 0, _INT32_MAX, 1000, "Kafka's least time between assignments; here none"),
    ("group.consumer.min.assignment.interval.ms", 0, _INT32_MAX, 0, "The least that a group may set it to"),
    ("group.consumer.max.assignment.interval.ms", 0, _INT32_MAX, 15_000, "The most that a group may set it to"),
    ("group.consumer.max.size", 1, _INT32_MAX, _INT32_MAX, "The most members that a consumer group may have"),
)
