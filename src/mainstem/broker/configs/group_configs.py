"""The configs of groups: Kafka's names, types, bounds and defaults, and the values that were set for each group.

A config that is not set for a group has the value of the broker's setting that its definition names. The bounds are
broker settings, too, so the operator limits what groups may set. A group need not exist to have configs.

Every change is durable when the call returns: it is written to the node's metadata log first. Concurrency: the event
loop only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.error_codes import refusal
from mainstem.errors import ConfigError
from mainstem.log.node.metadata import Metadata
from mainstem.log.partition.config_values import BOOLEAN, ConfigDef, ConfigType, as_stored, definitions, integer, one_of
from mainstem.model import is_topic_name
from mainstem.protocol.errors import ErrorCode

GROUP_CONFIG_ENTRIES: Final = "group configs"
"""The kind of the metadata entries that hold the configs of groups."""
_BY_DURATION: Final = "by_duration:"
_ISO_8601: Final = re.compile(
    r"P(?:(?P<days>\d{1,6})D)?(?:T(?:(?P<hours>\d{1,7})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,10}(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


def parse_offset_reset(text: str) -> str | timedelta:
    """Parse ``latest``, ``earliest``, or a duration ``by_duration:PnDTnHnMn.nS``. Raises ValueError."""
    text = text.strip()
    if text in ("latest", "earliest"):
        return text
    if text.startswith(_BY_DURATION):
        found = _ISO_8601.fullmatch(text.removeprefix(_BY_DURATION))
        parts = {name: float(value) for name, value in found.groupdict().items() if value} if found else {}
        if parts:
            return timedelta(**parts)
    raise ValueError("must be latest, earliest or by_duration:PnDTnHnMn.nS")


def _bounded(kind: str, table: Mapping[str, str]) -> dict[str, ConfigDef]:
    """Numeric configs of a ``kind`` of group; broker settings of nearly the same names give default and bounds."""
    return {
        f"{kind}.{word}": ConfigDef(
            f"{kind}.{word}",
            "int",
            "",
            doc,
            integer,
            setting=f"group.{kind}.{word}",
            bounds=(f"group.{kind}.min.{word}", f"group.{kind}.max.{word}"),
        )
        for word, doc in table.items()
    }


_AT_ONCE: Final = "Kafka's least time between two assignments; here they are made at once"
_CONSUMER: Final = {
    "assignment.interval.ms": _AT_ONCE,
    "heartbeat.interval.ms": "How often a member of a consumer group says that it lives",
    "session.timeout.ms": "A member of a consumer group that is silent for so long is out",
}
_SHARE: Final = {
    "assignment.interval.ms": _AT_ONCE,
    "delivery.count.limit": "How often a record is delivered before it is given up",
    "heartbeat.interval.ms": "How often a member of a share group says that it lives",
    "partition.max.record.locks": "Records of one partition that a share group may have in flight",
    "record.lock.duration.ms": "How long a member of a share group may hold a record",
    "session.timeout.ms": "A member of a share group that is silent for so long is out",
}

_STREAMS: Final = {
    "assignment.interval.ms": _AT_ONCE,
    "heartbeat.interval.ms": "How often a member of a streams group says that it lives",
    "session.timeout.ms": "A member of a streams group that is silent for so long is out",
}
_STREAMS_ALONE: Final = {
    "initial.rebalance.delay.ms": ("Kafka's wait for more members of a new streams group; here none", None),
    "num.standby.replicas": ("Standby tasks of each task of a streams group", ("", "max.standby.replicas")),
}


def _defaulted(kind: str, table: Mapping[str, tuple[str, tuple[str, str] | None]]) -> dict[str, ConfigDef]:
    """Numeric configs of a ``kind`` of group; a broker's setting gives the default, and others the bounds, if any."""
    return {
        f"{kind}.{word}": ConfigDef(
            f"{kind}.{word}",
            "int",
            "",
            doc,
            integer,
            setting=f"group.{kind}.{word}",
            bounds=None if bounds is None else (bounds[0], f"group.{kind}.{bounds[1]}"),
        )
        for word, (doc, bounds) in table.items()
    }


def _letter_topic(text: str) -> str:
    name = text.strip()
    if name and (not is_topic_name(name) or name.startswith("__")):
        raise ValueError("must be the name of a topic that does not begin with __, or empty")
    return name


_OWN: Final[Mapping[tuple[str, ConfigType, str | int], str]] = {
    ("share.auto.offset.reset", ConfigType("string", parse_offset_reset), "latest"): "Where a share group begins in a "
    "partition: latest, earliest, or so long ago (by_duration:PnDTnHnMn.nS)",
    ("errors.deadletterqueue.copy.record.enable", BOOLEAN, "false"): "Whether a dead letter has the key and the value "
    "of its record",
    ("errors.deadletterqueue.topic.name", ConfigType("string", _letter_topic), ""): "The topic for the dead letters of "
    "a share group: of records that a member rejected, or that reached the limit of deliveries; empty: none are "
    "written",
    ("share.isolation.level", one_of("read_committed", "read_uncommitted"), "read_uncommitted"): "Whether records of "
    "transactions are delivered before they are committed, or only then",
    ("share.renew.acknowledge.enable", BOOLEAN, "true"): "Whether a member may hold a record longer by renewing its "
    "lock",
}

GROUP_CONFIGS: Final[Mapping[str, ConfigDef]] = MappingProxyType(
    dict(
        sorted(
            {
                **_bounded("consumer", _CONSUMER),
                **_bounded("share", _SHARE),
                **_bounded("streams", _STREAMS),
                **_defaulted("streams", _STREAMS_ALONE),
                **definitions(_OWN),
            }.items()
        )
    )
)


class GroupConfigs:
    """The configs that are set for each group."""

    def __init__(self, config: BrokerConfig, metadata: Metadata) -> None:
        self._config = config
        self._metadata = metadata

    def get(self, group_id: str, name: str) -> Any:
        """Return the parsed value of a config, or its default."""
        definition = GROUP_CONFIGS[name]
        text = self.overrides(group_id).get(name)
        return definition.parse(self.default(definition) if text is None else text)

    def default(self, definition: ConfigDef) -> str:
        """Return the value of a config for groups that do not set it."""
        return self._config.text(definition.setting) if definition.setting is not None else definition.default

    def overrides(self, group_id: str) -> Mapping[str, str]:
        """Return the configs that are set for a group."""
        return as_stored(self._metadata.entries(GROUP_CONFIG_ENTRIES).get((group_id,), {}), GROUP_CONFIGS)

    def group_ids(self) -> list[str]:
        """Return the groups with at least one config."""
        return [str(group_id) for (group_id,) in self._metadata.entries(GROUP_CONFIG_ENTRIES)]

    def set(self, group_id: str, overrides: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace the configs of a group. Raises RemoteError, ConfigError, StorageError."""
        if not group_id:
            raise refusal(ErrorCode.INVALID_REQUEST, "a group has a name")
        for name, text in overrides.items():
            self._check(name, text)
        if not validate_only:
            self._metadata.put_entries(GROUP_CONFIG_ENTRIES, {(group_id,): dict(overrides) or None})

    def _check(self, name: str, text: str) -> None:
        definition = GROUP_CONFIGS.get(name)
        if definition is None:
            raise ConfigError(f"unknown group config {name!r}")
        value = definition.value(text, "group config")
        if definition.bounds is not None:
            low, high = (int(self._config.get(bound)) if bound else 0 for bound in definition.bounds)
            if not low <= value <= high:
                raise definition.refusal(text, "group config", f"must be from {low} to {high}")
