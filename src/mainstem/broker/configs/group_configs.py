"""The configs of groups: Kafka's names, types, bounds and defaults, and the values that were set for each group.

A config that is not set for a group has the value of the broker's setting that its definition names. The bounds are
broker settings, too, so the operator limits what groups may set. A group need not exist to have configs.

Every change is durable when the call returns: it is written to the node's metadata log first. Concurrency: the event
loop only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from mainstem.broker.configs.broker_settings import BrokerConfig
from mainstem.broker.failures import refusal
from mainstem.errors import ConfigError
from mainstem.log.node.metadata import Metadata
from mainstem.log.partition.config_values import as_stored, boolean, integer, one_of
from mainstem.protocol.errors import ErrorCode

_KIND: Final = "group configs"
_BY_DURATION: Final = "by_duration:"
_ISO_8601: Final = re.compile(
    r"P(?:(?P<days>\d{1,6})D)?(?:T(?:(?P<hours>\d{1,7})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,10}(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class GroupConfigDef:
    """One config of a group. ``setting`` is the broker's setting that gives its default, if any; ``bounds`` are the
    settings for its least and greatest value.
    """

    name: str
    type: str
    default: str
    doc: str
    parse: Callable[[str], Any]
    setting: str | None = None
    bounds: tuple[str, str] | None = None


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


def _share(name: str, doc: str) -> GroupConfigDef:
    """Define a numeric config; a broker's setting of nearly the same name gives its default and bounds."""
    word = name.removeprefix("share.")
    bounds = (f"group.share.min.{word}", f"group.share.max.{word}")
    return GroupConfigDef(name, "int", "", doc, integer, f"group.{name}", bounds)


def _consumer(name: str, doc: str) -> GroupConfigDef:
    """Define a numeric config of consumer groups, with default and bounds from the broker's settings."""
    word = name.removeprefix("consumer.")
    bounds = (f"group.consumer.min.{word}", f"group.consumer.max.{word}")
    return GroupConfigDef(name, "int", "", doc, integer, f"group.{name}", bounds)


_DEFINITIONS: Final = (
    _consumer(
        "consumer.assignment.interval.ms", "Kafka's least time between two assignments; here they are made at once"
    ),
    _consumer("consumer.heartbeat.interval.ms", "How often a member of a consumer group says that it lives"),
    _consumer("consumer.session.timeout.ms", "A member of a consumer group that is silent for so long is out"),
    _share("share.assignment.interval.ms", "Kafka's least time between two assignments; here they are made at once"),
    GroupConfigDef(
        "share.auto.offset.reset",
        "string",
        "latest",
        "Where a share group begins in a partition: latest, earliest, or so long ago (by_duration:PnDTnHnMn.nS)",
        parse_offset_reset,
    ),
    _share("share.delivery.count.limit", "How often a record is delivered before it is given up"),
    _share("share.heartbeat.interval.ms", "How often a member of a share group says that it lives"),
    GroupConfigDef(
        "share.isolation.level",
        "string",
        "read_uncommitted",
        "Whether records of transactions are delivered before they are committed, or only then",
        one_of("read_committed", "read_uncommitted"),
    ),
    _share("share.partition.max.record.locks", "Records of one partition that a share group may have in flight"),
    _share("share.record.lock.duration.ms", "How long a member of a share group may hold a record"),
    GroupConfigDef(
        "share.renew.acknowledge.enable",
        "boolean",
        "true",
        "Whether a member may hold a record longer by renewing its lock",
        boolean,
    ),
    _share("share.session.timeout.ms", "A member of a share group that is silent for so long is out"),
)

GROUP_CONFIGS: Final[Mapping[str, GroupConfigDef]] = MappingProxyType(
    {definition.name: definition for definition in _DEFINITIONS}
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

    def default(self, definition: GroupConfigDef) -> str:
        """Return the value of a config for groups that do not set it."""
        return self._config.text(definition.setting) if definition.setting is not None else definition.default

    def overrides(self, group_id: str) -> Mapping[str, str]:
        """Return the configs that are set for a group."""
        return as_stored(self._metadata.entries(_KIND).get((group_id,), {}), GROUP_CONFIGS)

    def group_ids(self) -> list[str]:
        """Return the groups with at least one config."""
        return [str(group_id) for (group_id,) in self._metadata.entries(_KIND)]

    def set(self, group_id: str, overrides: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace the configs of a group. Raises RemoteError, ConfigError, StorageError."""
        if not group_id:
            raise refusal(ErrorCode.INVALID_REQUEST, "a group has a name")
        for name, text in overrides.items():
            self._check(name, text)
        if not validate_only:
            self._metadata.put_entries(_KIND, {(group_id,): dict(overrides) or None})

    def _check(self, name: str, text: str) -> None:
        definition = GROUP_CONFIGS.get(name)
        if definition is None:
            raise ConfigError(f"unknown group config {name!r}")
        try:
            value = definition.parse(text)
            if definition.bounds is not None:
                low, high = (int(self._config.get(bound)) for bound in definition.bounds)
                if not low <= value <= high:
                    raise ValueError(f"must be from {low} to {high}")
        except ValueError as error:
            reason = str(error) if str(error).startswith("must") else f"must be of type {definition.type}"
            raise ConfigError(f"group config {name}={text!r}: {reason}") from error
