"""The node's current settings: values set at run time come first, then those from the start, then the defaults.

As in Kafka, run-time values have two places: this node, by its id, and all nodes, by the empty name. They are stored in
the node's metadata and take effect at once. Settings that can change while the node runs (``changeable``) are the
defaults of topic configs, and those for which the node gives a function that applies a new value. The others are read
once, at the start, and a change of them is refused.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from mainstem.broker.configs.broker_config import SETTINGS, BrokerConfig
from mainstem.broker.error_codes import refusal
from mainstem.errors import ConfigError
from mainstem.log.node.metadata import Metadata
from mainstem.log.partition.config import LogConfig, similar
from mainstem.log.partition.config_values import as_stored
from mainstem.protocol.errors import ErrorCode

ALL_NODES: Final = ""
_OF_TOPICS: Final = frozenset(
    name for name, setting in SETTINGS.items() if setting.topic_config is not None and setting.scale == 1
)
BROKER_CONFIG_ENTRIES: Final = "broker-config"
"""The kind of the metadata entries that hold the settings that were changed at run time."""


class Level(NamedTuple):
    """A place where a setting has a value, and its text. ``place`` is None for values from the node's start."""

    place: str | None
    text: str


class DynamicConfigs:
    """The settings of one node.

    ``appliers``: by the name of a setting, what applies its value. ``set_topic_defaults`` takes the defaults of topic
    configs. Both are called by ``apply``: at the start, and after every change.
    """

    def __init__(
        self,
        config: BrokerConfig,
        metadata: Metadata,
        appliers: Mapping[str, Callable[[Any], None]],
        set_topic_defaults: Callable[[dict[str, str]], None],
    ) -> None:
        self.changeable = _OF_TOPICS | appliers.keys()
        """The settings that can change while the node runs."""
        self._config = config
        self._metadata = metadata
        self._appliers = appliers
        self._set_topic_defaults = set_topic_defaults
        self._own_name = str(config.get("node.id"))

    def levels(self, name: str) -> list[Level]:
        """Return the places that give the setting a value, the winning one first; empty if it has its default."""
        levels = [
            Level(place, self.overrides(place)[name])
            for place in (self._own_name, ALL_NODES)
            if name in self.overrides(place)
        ]
        if name in self._config.settings:
            levels.append(Level(None, self._config.settings[name]))
        return levels

    def get(self, name: str) -> Any:
        """Return the parsed value of a setting, or its default."""
        levels = self.levels(name)
        return self._config.parse(name, levels[0].text) if levels else self._config.get(name)

    def overrides(self, place: str) -> Mapping[str, str]:
        """Return the run-time values for this node or for all nodes. Raises RemoteError for another node."""
        if place not in (self._own_name, ALL_NODES):
            raise refusal(ErrorCode.INVALID_REQUEST, f"this is node {self._own_name}, not {place[:300]}")
        stored = self._metadata.entries(BROKER_CONFIG_ENTRIES).get((place,), {})
        return as_stored({name: text for name, text in stored.items() if name in self.changeable}, SETTINGS)

    def set(self, place: str, overrides: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace the run-time values for this node or for all nodes. Raises RemoteError, ConfigError, StorageError."""
        for name, text in overrides.items():
            if name not in SETTINGS:
                raise ConfigError(f"unknown setting {name[:300]!r}{similar(name, SETTINGS)}")
            if name not in self.changeable:
                raise refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"setting {name} cannot be changed while the node runs: it is given when the node starts",
                )
            self._config.parse(name, text)
        if not validate_only:
            self._metadata.put_entries(BROKER_CONFIG_ENTRIES, {(place,): dict(overrides) or None})
            self.apply()

    def apply(self) -> None:
        """Apply the current values."""
        for name, apply in self._appliers.items():
            apply(self.get(name))
        self._set_topic_defaults(self.topic_defaults())

    def topic_defaults(self) -> dict[str, str]:
        """Return the topic configs whose default these settings change."""
        defaults = self._config.topic_defaults()
        for place in (ALL_NODES, self._own_name):
            for name, text in self.overrides(place).items():
                topic_config = SETTINGS[name].topic_config
                if topic_config is not None:
                    defaults[topic_config] = text
        LogConfig.of({}, defaults)
        return defaults
