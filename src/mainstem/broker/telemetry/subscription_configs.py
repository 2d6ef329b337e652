"""The configs of client metrics: which metrics which clients send, and how often. Kafka's names, types and bounds.

A subscription has a name, and exists while it has a config. Every change is durable when the call returns: it is
written to the node's metadata log first. Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mainstem.broker.configs.client_metrics_configs import CLIENT_METRICS_CONFIGS
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.consumer.topic_patterns import TopicPatterns
from mainstem.errors import ConfigError, MainstemError
from mainstem.log.node.metadata import Metadata
from mainstem.log.partition.config_values import as_stored
from mainstem.protocol.errors import ErrorCode

_KIND: Final = "client metrics"
SUBSCRIPTIONS_MAX: Final = 1000


class ClientSubscription(NamedTuple):
    """One subscription; ``patterns`` has a matching function for each attribute that it restricts."""

    metrics: frozenset[str]
    interval_ms: int
    patterns: Mapping[str, Callable[[str], object]]

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Whether a client with these attributes is meant."""
        return all(name in attributes and match(attributes[name]) is not None for name, match in self.patterns.items())


class ClientMetricsConfigs:
    """The subscriptions. ``version`` rises with every change."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._patterns = TopicPatterns()
        self._parsed: list[ClientSubscription] | None = None
        self.version = 0

    def names(self) -> list[str]:
        """Return the names of all subscriptions."""
        return [str(name) for (name,) in self._metadata.entries(_KIND)]

    def overrides(self, name: str) -> Mapping[str, str]:
        """Return the configs that are set. Raises RemoteError without a name."""
        if not name:
            raise refusal(ErrorCode.INVALID_REQUEST, "the resource has no name: give the name of a subscription")
        return as_stored(self._metadata.entries(_KIND).get((name,), {}), CLIENT_METRICS_CONFIGS)

    def set(self, name: str, overrides: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace the configs of a subscription; without any it is removed. Raises RemoteError, ConfigError."""
        is_new = not self.overrides(name)
        for config, text in overrides.items():
            self._check(config, text)
        if is_new and overrides and len(self.names()) >= SUBSCRIPTIONS_MAX:
            raise refusal(
                ErrorCode.INVALID_REQUEST, f"there are {SUBSCRIPTIONS_MAX} client metrics subscriptions: delete one"
            )
        if not validate_only:
            self._metadata.put_entries(_KIND, {(name,): dict(overrides) or None})
            self._parsed = None
            self.version += 1

    def all(self) -> list[ClientSubscription]:
        """Return all subscriptions."""
        if self._parsed is None:
            self._parsed = [self._parse(name) for name in self.names()]
        return self._parsed

    def _parse(self, name: str) -> ClientSubscription:
        texts = self.overrides(name)
        values = {
            config: definition.value(texts.get(config, definition.default), "client metrics config")
            for config, definition in CLIENT_METRICS_CONFIGS.items()
        }
        patterns = {attribute: self._patterns.compile(pattern) for attribute, pattern in values["match"].items()}
        return ClientSubscription(frozenset(values["metrics"]), values["interval.ms"], patterns)

    def _check(self, name: str, text: str) -> None:
        definition = CLIENT_METRICS_CONFIGS.get(name)
        if definition is None:
            raise refusal(ErrorCode.INVALID_REQUEST, f"unknown client metrics config {name[:300]!r}")
        try:
            value = definition.value(text, "client metrics config")
            for pattern in value.values() if name == "match" else ():
                self._patterns.compile(pattern)
        except MainstemError as error:
            # As in Kafka: a wrong interval is an invalid request, a wrong pattern an invalid config.
            if name == "match":
                raise ConfigError(str(error)) from error
            raise refusal(ErrorCode.INVALID_REQUEST, str(error)) from error
