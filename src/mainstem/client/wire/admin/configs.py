"""The brokers' settings by the Kafka protocol; functions over a ``WireClient``, whose contract they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

_BROKER_RESOURCE: Final = 4
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
