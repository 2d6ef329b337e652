"""Configs as the protocol shows them: value, source, type, documentation and synonyms."""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from mainstem.broker.configs.broker_config import SETTINGS, scaled
from mainstem.broker.configs.client_metrics_configs import CLIENT_METRICS_CONFIGS
from mainstem.broker.configs.dynamic_configs import ALL_NODES, DynamicConfigs
from mainstem.broker.configs.group_configs import GROUP_CONFIGS, GroupConfigs
from mainstem.log.partition.config import CONFIGS
from mainstem.log.partition.config_values import ConfigDef, as_parsed


class ConfigResourceType(enum.IntEnum):
    """The types of resources with configs, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """The sources of a config's value, by Kafka's numbers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


_TYPES: Final = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
_SETTING_OF: Final = {
    setting.topic_config: setting.name
    for setting in SETTINGS.values()
    if setting.topic_config is not None and setting.scale == 1
}
_COARSER_OF: Final = {
    name: tuple(
        other.name
        for other in sorted(SETTINGS.values(), key=lambda each: each.scale)
        if other.topic_config == topic_config and other.scale > 1
    )
    for topic_config, name in _SETTING_OF.items()
}
"""The settings of the same config in coarser units, the finest first."""


_WITHOUT_DEFAULT: Final = frozenset({"log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"})
"""Settings without a default in Kafka; a setting in coarser units replaces them. They are synonyms where set."""


class Synonym(NamedTuple):
    """A place that can give a config its value; the first one that is set wins."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of a topic, a group, client metrics or the node."""

    name: str
    value: str
    source: ConfigSource
    type: int
    doc: str
    is_read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def is_sensitive(self) -> bool:
        """Whether the config is a secret, whose value is never shown."""
        return self.type == _TYPES["password"]


def topic_entries(
    configs: DynamicConfigs, overrides: Mapping[str, str], wanted: Container[str] | None = None
) -> list[ConfigEntry]:
    """Return the ``wanted`` configs of a topic with these overrides; None: every config."""
    entries = []
    for name, definition in CONFIGS.items():
        if wanted is not None and name not in wanted:
            continue
        synonyms = []
        if name in overrides:
            shown = as_parsed(definition.type, overrides[name])
            synonyms.append(Synonym(name, shown, ConfigSource.DYNAMIC_TOPIC))
        setting = _SETTING_OF.get(name)
        if setting is not None:
            synonyms += _broker_synonyms(configs, setting)
        first = synonyms[0] if synonyms else Synonym(name, definition.default, ConfigSource.DEFAULT)
        value, source = as_parsed(definition.type, _effective(first)), first.source
        if setting in _WITHOUT_DEFAULT:
            synonyms = [each for each in synonyms if each.source != ConfigSource.DEFAULT]
        kind = _TYPES[definition.type]
        entries.append(ConfigEntry(name, value, source, kind, definition.doc, False, tuple(synonyms)))
    return entries


def group_entries(broker_configs: DynamicConfigs, configs: GroupConfigs, group_id: str) -> list[ConfigEntry]:
    """Return every config of a group."""
    overrides = configs.overrides(group_id)
    entries = []
    for name, definition in GROUP_CONFIGS.items():
        synonyms = [Synonym(name, configs.default(definition), ConfigSource.DEFAULT)]
        if definition.setting is not None:
            synonyms = _broker_synonyms(broker_configs, definition.setting)
        if name in overrides:
            shown = as_parsed(definition.type, overrides[name])
            synonyms.insert(0, Synonym(name, shown, ConfigSource.DYNAMIC_GROUP))
        _, value, source = synonyms[0]
        kind = _TYPES[definition.type]
        entries.append(ConfigEntry(name, value, source, kind, definition.doc, False, tuple(synonyms)))
    return entries


def client_metrics_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return every config of a subscription to client metrics with these overrides."""
    entries = []
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        synonyms = [Synonym(name, definition.default, ConfigSource.DEFAULT)]
        if name in overrides:
            shown = as_parsed(definition.type, overrides[name])
            synonyms.insert(0, Synonym(name, shown, ConfigSource.CLIENT_METRICS))
        _, value, source = synonyms[0]
        kind = _TYPES[definition.type]
        entries.append(ConfigEntry(name, value, source, kind, definition.doc, False, tuple(synonyms)))
    return entries


def broker_entries(configs: DynamicConfigs, place: str) -> list[ConfigEntry]:
    """Return every setting of the node; for ``ALL_NODES`` only those that are set for all nodes."""
    entries = []
    for name, setting in SETTINGS.items():
        synonyms = _broker_synonyms(configs, name)
        if place == ALL_NODES:
            synonyms = [each for each in synonyms if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER]
            if not synonyms:
                continue
        value, source = _effective(synonyms[0], setting.scale), synonyms[0].source
        is_read_only = name not in configs.changeable
        kind = _TYPES[setting.type]
        entries.append(ConfigEntry(name, value, source, kind, setting.doc, is_read_only, tuple(synonyms)))
    return entries


def _broker_synonyms(configs: DynamicConfigs, name: str) -> list[Synonym]:
    synonyms = []
    for place, text in configs.levels(name):
        if place is None:
            source = ConfigSource.STATIC_BROKER
        else:
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER if place == ALL_NODES else ConfigSource.DYNAMIC_BROKER
        synonyms.append(Synonym(name, text, source))
    return [*synonyms, *_coarser(configs, name), Synonym(name, SETTINGS[name].default, ConfigSource.DEFAULT)]


def _effective(first: Synonym, scale: int = 1) -> str:
    """Convert the value of the first synonym to the units of the config."""
    setting = SETTINGS.get(first.name)
    return first.value if setting is None else scaled(first.value, setting.scale // scale)


def _coarser(configs: DynamicConfigs, name: str) -> list[Synonym]:
    """Return the setting in coarser units (``log.retention.hours`` for ``log.retention.ms``), if set at the start."""
    return [
        Synonym(other, levels[0].text, ConfigSource.STATIC_BROKER)
        for other in _COARSER_OF.get(name, ())
        if (levels := configs.levels(other))
    ]


class ReplaceConfigs(Protocol):
    """Replaces all configs of a resource."""

    def __call__(self, overrides: Mapping[str, str], *, validate_only: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class ChangeableConfigs:
    """The changeable configs of a topic, a group or the node: the current values, and the way to replace them.

    ``definitions`` give the type and the default of every config that can be set. ``replace`` takes all values to set
    and whether to validate only; it raises ConfigError, RemoteError, StorageError.
    """

    overrides: Mapping[str, str]
    definitions: Mapping[str, ConfigDef]
    replace: ReplaceConfigs
