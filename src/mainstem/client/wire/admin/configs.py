"""The settings of brokers and topics by the Kafka protocol: functions over a ``WireClient``, with its contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.topics import SET_ON_TOPIC, topic_config_entries
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)

_BROKER_RESOURCE: Final = 4
_UNITS_OF_BROKER: Final = {
    "retention.ms": "log.retention",
    "segment.ms": "log.roll",
    "segment.jitter.ms": "log.roll.jitter",
}
_UNITS_MS: Final = {"ms": 1, "minutes": 60_000, "hours": 3_600_000}
"""The first that a broker sets counts."""
_SOURCES: Final = {
    1: "topic",
    2: "broker, changed while it runs",
    3: "all brokers, changed while they run",
    4: "broker, as it was started",
    5: "default",
}


@dataclass(frozen=True, slots=True)
class BrokerSetting:
    """One setting of a broker. The value of a ``sensitive`` one is always None: the broker does not send it."""

    name: str
    value: str | None
    source: str
    is_sensitive: bool
    is_read_only: bool
    documentation: str


def broker_settings(client: WireClient, broker_id: int) -> list[BrokerSetting]:
    """Every setting of one broker, by name. Raises AuthorizationError, LogUnavailableError, RemoteError."""
    resource = DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(broker_id), configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_documentation=True)
    settings: list[BrokerSetting] = []
    for result in client.request(request, broker_id, resends=True).results:
        if result.error_code != ErrorCode.NONE:
            raise error_of(result.error_code, f"broker {broker_id} cannot be described", result.error_message)
        settings += [
            BrokerSetting(
                entry.name,
                None if entry.is_sensitive else entry.value,
                _SOURCES.get(entry.config_source, "unknown"),
                entry.is_sensitive,
                entry.read_only,
                entry.documentation or "",
            )
            for entry in result.configs
        ]
    return sorted(settings, key=lambda setting: setting.name)


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """One config of a topic. ``default`` is the value without a value of the topic's own; None where it is not known.

    The value of a ``sensitive`` one is always None.
    """

    name: str
    value: str | None
    default: str | None
    source: str
    is_set: bool
    is_sensitive: bool
    is_read_only: bool
    documentation: str


def topic_settings(client: WireClient, topic: str) -> list[TopicSetting]:
    """Every config of a topic, by name. Raises UnknownTopicError, AuthorizationError, LogUnavailableError."""
    settings = [
        TopicSetting(
            entry.name,
            None if entry.is_sensitive else entry.value,
            None if entry.is_sensitive else _default_of(entry),
            _SOURCES.get(entry.config_source, "unknown"),
            entry.config_source == SET_ON_TOPIC,
            entry.is_sensitive,
            entry.read_only,
            entry.documentation or "",
        )
        for entry in topic_config_entries(client, topic, in_full=True)
    ]
    missing = [each.name for each in settings if each.default is None and each.name in _UNITS_OF_BROKER]
    defaults = _broker_defaults(client, missing) if missing else {}
    settings = [replace(each, default=defaults.get(each.name, each.default)) for each in settings]
    return sorted(settings, key=lambda setting: setting.name)


def _default_of(entry: DescribeConfigsResourceResult) -> str | None:
    """The value that holds without one of the topic's own: the first of the sources behind it."""
    if entry.config_source != SET_ON_TOPIC:
        return entry.value
    return next((synonym.value for synonym in entry.synonyms if synonym.source != SET_ON_TOPIC), None)


def _broker_defaults(client: WireClient, names: Sequence[str]) -> dict[str, str]:
    """The defaults that a broker has in several units, e.g. ``log.retention.hours``; none where it may not be asked."""
    wanted = [f"{_UNITS_OF_BROKER[name]}.{unit}" for name in names for unit in _UNITS_MS]
    broker_id = next(iter(client.brokers), None)
    if broker_id is None:
        return {}
    resource = DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(broker_id), configuration_keys=wanted
    )
    [result] = client.request(DescribeConfigsRequest(resources=[resource]), broker_id, resends=True).results
    values = {entry.name: entry.value for entry in result.configs if entry.value}
    defaults: dict[str, str] = {}
    for name in names:
        for unit, unit_ms in _UNITS_MS.items():
            value = values.get(f"{_UNITS_OF_BROKER[name]}.{unit}")
            if value is not None and name not in defaults:
                defaults[name] = str(int(value) * unit_ms) if int(value) > 0 else value
    return defaults
