"""Configs as the protocol shows them: value, where it comes from, type, documentation and synonyms."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from mainstem.broker.config import SETTINGS, BrokerConfig
from mainstem.broker.failures import refusal
from mainstem.log.config import CONFIGS
from mainstem.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from mainstem.broker.node import Node
    from mainstem.broker.topics import Topic


class ResourceType(enum.IntEnum):
    """What has configs, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(enum.IntEnum):
    """Where a config's value comes from, by Kafka's numbers."""

    DYNAMIC_TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


_TYPES: Final = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7, "class": 8}
_SETTING_OF: Final = {
    setting.topic_config: setting.name for setting in SETTINGS.values() if setting.topic_config is not None
}


class Synonym(NamedTuple):
    """A place that a config's value may come from; the first one that is set wins."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of a topic or of the node."""

    name: str
    value: str
    source: ConfigSource
    type: int
    doc: str
    is_read_only: bool
    synonyms: tuple[Synonym, ...]


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Every config of a topic that has these overrides."""
    entries = []
    for name, definition in CONFIGS.items():
        synonyms = []
        if name in overrides:
            synonyms.append(Synonym(name, overrides[name], ConfigSource.DYNAMIC_TOPIC))
        setting = _SETTING_OF.get(name)
        if setting is not None:
            synonyms += _broker_synonyms(config, setting)
        else:
            synonyms.append(Synonym(name, definition.default, ConfigSource.DEFAULT))
        _, value, source = synonyms[0]
        kind = _TYPES[definition.type]
        entries.append(ConfigEntry(name, value, source, kind, definition.doc, False, tuple(synonyms)))
    return entries


def broker_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Every setting of the node."""
    entries = []
    for name, setting in SETTINGS.items():
        synonyms = tuple(_broker_synonyms(config, name))
        _, value, source = synonyms[0]
        entries.append(ConfigEntry(name, value, source, _TYPES[setting.type], setting.doc, True, synonyms))
    return entries


def _broker_synonyms(config: BrokerConfig, name: str) -> list[Synonym]:
    synonyms = []
    if name in config.settings:
        synonyms.append(Synonym(name, config.settings[name], ConfigSource.STATIC_BROKER))
    return [*synonyms, Synonym(name, SETTINGS[name].default, ConfigSource.DEFAULT)]


def require_topic(node: Node, resource_type: int, name: str) -> Topic:
    """The topic whose configs are to be changed. Raises RemoteError for another resource, UnknownTopicError."""
    if resource_type != ResourceType.TOPIC:
        raise refusal(
            ErrorCode.INVALID_REQUEST,
            f"configs of resources of type {resource_type} cannot be changed here; "
            "a node's settings are given when it starts",
        )
    return node.topics.find(name)
